// Sums of Fourier features over blocks of consecutive rows, on a line of bounded length: see native.
//
// Threads take groups of blocks and of slices. A long block is summed frequency by frequency, as a slice is in
// _trig_rows. Rows of short blocks share a tile: their features are computed side by side, then every block collects
// its own.

#pragma once

#include <complex>
#include <vector>

#include "_trig_base.h"
#include "_trig_rows.h"

namespace slicestein {

constexpr int64_t kTile = 64;         // rows of short blocks that share a tile
constexpr int64_t kLongBlock = 24;    // rows from which a block is summed by itself
constexpr int64_t kSliceGroup = 32;   // slices of a task

template <typename T>
struct BlockSums {
  const T *t, *a, *c;  // (slices, rows), c: (slices, c_count)
  int64_t slices, rows, c_count;
  const int64_t* ends;
  int64_t blocks;
  double spacing;
  const double* roots;
  int64_t length;
  const T *centre, *bulk;  // (slices,)
  T tail;
  T* out;  // (blocks, slices, 2 length)

  T* sums(int64_t block, int64_t m) const { return out + (block * slices + m) * 2 * length; }
  int64_t start(int64_t block) const { return block ? ends[block - 1] : 0; }
};

// u = T(y) and the Jacobian term c T'(y), y = t - centre. The latter is NaN where an input is not finite, and makes NaN
// of every frequency, the zero too.
template <typename T, bool kSharedC>
SIMD void bend_rows(const T* __restrict t, const T* __restrict a, const T* __restrict c, int n, T centre, T bulk,
                    T tail, T* __restrict u, T* __restrict jacobian) {
  // Beyond it T is at its limit and T' zero in this type; the square of z is still a number.
  constexpr T kFarthest = sizeof(T) == 8 ? T(1e150) : T(1e18);
  for (int i = 0; i < n; ++i) {
    const T y = t[i] - centre, size = std::fabs(y), ci = c[kSharedC ? 0 : i];
    const T beyond = (size > bulk ? size - bulk : T(0)) / tail;
    const T z = beyond < kFarthest ? beyond : kFarthest, root = T(1) / std::sqrt(T(1) + z * z);
    const T bent = (size < bulk ? size : bulk) + tail * z * root;
    const bool finite = is_finite(y) & is_finite(a[i]) & is_finite(ci);
    u[i] = y < 0 ? -bent : bent;
    jacobian[i] = finite ? ci * root * root * root : std::numeric_limits<T>::quiet_NaN();
  }
}

template <typename T>
void bend(const BlockSums<T>& job, int64_t m, int64_t row, int n, T* u, T* jacobian) {
  const int64_t at = m * job.rows + row;
  const bool shared_c = job.c_count != job.rows;
  (shared_c ? bend_rows<T, true> : bend_rows<T, false>)(job.t + at, job.a + at, job.c + (shared_c ? m : at), n,
                                                        job.centre[m], job.bulk[m], job.tail, u, jacobian);
}

template <typename T>
void sum_long_block(const BlockSums<T>& job, int64_t block, int64_t m) {
  T u[kBlock], jacobian[kBlock];
  Coefficients psi(job.length + 1);
  for (int64_t row = job.start(block); row < job.ends[block]; row += kBlock) {
    const int n = static_cast<int>(std::min<int64_t>(kBlock, job.ends[block] - row));
    bend(job, m, row, n, u, jacobian);
    add_sums<T, false>(u, job.a + m * job.rows + row, jacobian, n, T(0), job.spacing, job.length, psi.data());
  }
  T* sums = job.sums(block, m);
  for (int64_t j = 0; j < job.length; ++j) {
    sums[j] = T(job.roots[j] * psi[j].real());
    sums[job.length + j] = T(job.roots[j] * psi[j].imag());
  }
}

// Features (2 length, kTile) of at most kTile rows.
template <typename T>
SIMD void tile_features(const T* __restrict u, const T* __restrict a, const T* __restrict jacobian, int n,
                        double spacing, const double* roots, int64_t length, T* __restrict features) {
  Block<T> block;
  block.start(u, n, T(0), T(spacing));
  for (int64_t j = 0; j < length; ++j) {
    const T root = T(roots[j]), w = T(roots[j] * spacing * j);
    T *real = features + j * kTile, *imag = features + (length + j) * kTile;
    for (int i = 0; i < n; ++i) {
      T x = block.cos[i], y = block.sin[i];
      const T even = root * a[i], odd = w * jacobian[i];
      real[i] = even * x - odd * y;
      imag[i] = even * y + odd * x;
      block.rotate(i, x, y);
      block.cos[i] = x, block.sin[i] = y;
    }
  }
}

// Sums of rows [begin, end) of the tile, from its columns.
template <typename T>
void collect(const T* __restrict features, int64_t begin, int64_t end, int64_t two_j, T* __restrict sums) {
  if (begin == end) std::fill_n(sums, two_j, T(0));
  else
    for (int64_t k = 0; k < two_j; ++k) sums[k] = features[k * kTile + begin];
  for (int64_t i = begin + 1; i < end; ++i)
    for (int64_t k = 0; k < two_j; ++k) sums[k] += features[k * kTile + i];
}

// Short blocks [first, last) of slices [begin, end). Their sums are staged: rows of the result are far apart, and
// memory is fast where much is written at once.
template <typename T>
void sum_short_blocks(const BlockSums<T>& job, int64_t first, int64_t last, int64_t begin, int64_t end) {
  T u[kTile], jacobian[kTile];
  const int64_t row = job.start(first), two_j = 2 * job.length, width = (end - begin) * two_j;
  const int n = static_cast<int>(job.ends[last - 1] - row);
  std::vector<T> features(two_j * kTile), staged((last - first) * width);
  for (int64_t m = begin; m < end; ++m) {
    bend(job, m, row, n, u, jacobian);
    tile_features(u, job.a + m * job.rows + row, jacobian, n, job.spacing, job.roots, job.length, features.data());
    for (int64_t block = first; block < last; ++block)
      collect(features.data(), job.start(block) - row, job.ends[block] - row, two_j,
              staged.data() + (block - first) * width + (m - begin) * two_j);
  }
  for (int64_t block = first; block < last; ++block)
    std::copy_n(staged.data() + (block - first) * width, width, job.sums(block, begin));
}

// Ends of groups of blocks: a long block, or short ones that fit into a tile.
template <typename T>
std::vector<int64_t> group_blocks(const BlockSums<T>& job) {
  std::vector<int64_t> groups;
  for (int64_t block = 0; block < job.blocks;) {
    const int64_t begin = job.start(block);
    int64_t last = block + 1;
    if (job.ends[block] - begin < kLongBlock)
      while (last < job.blocks && job.ends[last] - begin <= kTile && job.ends[last] - job.ends[last - 1] < kLongBlock)
        ++last;
    groups.push_back(last);
    block = last;
  }
  return groups;
}

template <typename T, typename Spawn>
void block_sums(const BlockSums<T>& job, int64_t num_helpers, Spawn spawn) {
  const std::vector<int64_t> groups = group_blocks(job);
  const int64_t slice_groups = (job.slices + kSliceGroup - 1) / kSliceGroup;
  const int64_t tasks = static_cast<int64_t>(groups.size()) * slice_groups;
  parallel_for(num_helpers, spawn, tasks, [&job, &groups, slice_groups](int64_t task) {
    const int64_t group = task / slice_groups, first_slice = task % slice_groups * kSliceGroup;
    const int64_t first = group ? groups[group - 1] : 0, last = groups[group];
    const int64_t last_slice = std::min(first_slice + kSliceGroup, job.slices);
    if (job.ends[first] - job.start(first) < kLongBlock) sum_short_blocks(job, first, last, first_slice, last_slice);
    else
      for (int64_t m = first_slice; m < last_slice; ++m) sum_long_block(job, first, m);
  });
}

}  // namespace slicestein
