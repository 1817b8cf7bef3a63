// Sums of Fourier features over blocks of consecutive rows, on a line of bounded length: see native.
//
// Threads take groups of blocks and of slices. A long block is summed frequency by frequency, as a slice is in
// _trig_rows. Rows of short blocks share a tile: their features are computed side by side, then every block collects its
// own, so that what a task writes lies together in memory.

#pragma once

#include <complex>
#include <vector>

#include "_trig_base.h"
#include "_trig_rows.h"

namespace slicestein {

constexpr int64_t kTile = 64;         // rows of short blocks that share a tile
constexpr int64_t kLongBlock = 24;    // rows from which a block is summed by itself
constexpr int64_t kSliceGroup = 16;   // slices of a task

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
  // Beyond it T is at its limit, and the third power of the slope is still a number.
  constexpr T kFarthest = sizeof(T) == 8 ? T(1e100) : T(1e12);
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

template <typename T>
void sum_short_blocks(const BlockSums<T>& job, int64_t first, int64_t last, int64_t m, std::vector<T>& features) {
  T u[kTile], jacobian[kTile];
  const int64_t begin = job.start(first), two_j = 2 * job.length;
  const int n = static_cast<int>(job.ends[last - 1] - begin);
  features.resize(two_j * kTile);
  bend(job, m, begin, n, u, jacobian);
  tile_features(u, job.a + m * job.rows + begin, jacobian, n, job.spacing, job.roots, job.length, features.data());
  for (int64_t block = first; block < last; ++block) {
    T* sums = job.sums(block, m);
    const T* rows = features.data() + (job.start(block) - begin);
    const int64_t size = job.ends[block] - job.start(block);
    for (int64_t k = 0; k < two_j; ++k) {
      T sum = 0;
      for (int64_t i = 0; i < size; ++i) sum += rows[k * kTile + i];
      sums[k] = sum;
    }
  }
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
    std::vector<T> features;
    for (int64_t m = first_slice; m < std::min(first_slice + kSliceGroup, job.slices); ++m) {
      if (job.ends[last - 1] - job.start(first) >= kLongBlock && last == first + 1) sum_long_block(job, first, m);
      else sum_short_blocks(job, first, last, m, features);
    }
  });
}

}  // namespace slicestein
