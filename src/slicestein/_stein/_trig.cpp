// Sums of the sliced Stein kernel on the CPU: the compiled twins of functions in fourier, kernels and exact.
//
// One row is one slice: u (N,) projected samples in units of the bandwidth, a (N,) projected
// scores, c (N,) or (1,) the Jacobian term. With frequencies w_j = j Delta and weights A_j of a
// quadrature rule for the spectral density,
//
//     psi_j = sum_n (a_n + i w_j c_n) exp(i w_j u_n),     V = sum_j A_j |psi_j|^2 / N^2.
//
// A rule of period P = 2 pi / Delta is exact for |u_i - u_j| <= P - reach, where the kernel is
// negligible beyond `reach`. A row that is wider than any rule allows is cut into cells of width
// `reach`: only points of the same or of adjacent cells interact, so that
//
//     V = sum_j A_j sum_cells [ |psi_cell|^2 + 2 Re(psi_cell conj(psi_next)) ] / N^2,
//
// whatever the range of the data. The gradient in (u, a, c) is a trigonometric sum with the
// coefficients A_j psi_j of the neighbourhood, evaluated while the row is still in cache.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <vector>

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// One machine-code version per instruction set, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__)
#define SIMD __attribute__((target_clones("avx512f", "arch=x86-64-v3", "default")))
#else
#define SIMD
#endif

namespace {

constexpr int kBlock = 256;  // samples per pass: the working set of a pass stays in the L1 cache
constexpr double kTwoPi = 6.283185307179586476925286766559;

// The quadrature rules, narrowest first; row k of `weights` belongs to spacing[k].
struct Rules {
  ffi::Span<const double> spacing;
  ffi::Span<const int64_t> length;
  ffi::Span<const double> weights;
  double reach;
  int64_t stride() const { return weights.size() / spacing.size(); }
  const double* row(int64_t k) const { return weights.begin() + k * stride(); }
  double widest_range(int64_t k) const { return kTwoPi / spacing[k] - reach; }
};

// sin and cos of |theta| <= pi, by Taylor polynomials of the half angle.
template <typename T>
inline void sincos_half(T theta, T& sine, T& cosine) {
  const T y = theta * T(0.5), q = y * y;
  T s, c;
  if constexpr (sizeof(T) == 8) {
    s = T(1.9572941063391263e-20);   // 1/21!
    s = s * q - T(8.2206352466243295e-18);
    s = s * q + T(2.8114572543455206e-15);
    s = s * q - T(7.6471637318198164e-13);
    s = s * q + T(1.6059043836821613e-10);
    s = s * q - T(2.5052108385441720e-08);
    c = T(-8.8967913924505741e-22);  // -1/22!
    c = c * q + T(4.1103176233121648e-19);
    c = c * q - T(1.5619206968586225e-16);
    c = c * q + T(4.7794773323873853e-14);
    c = c * q - T(1.1470745597729725e-11);
    c = c * q + T(2.0876756987868100e-09);
  } else {
    s = T(-2.5052108385441720e-08);  // -1/11!
    c = T(2.0876756987868100e-09);   // 1/12!
  }
  s = s * q + T(2.7557319223985893e-06);
  s = s * q - T(1.9841269841269841e-04);
  s = s * q + T(8.3333333333333332e-03);
  s = s * q - T(1.6666666666666666e-01);
  s = (s * q + T(1)) * y;
  c = c * q - T(2.7557319223985888e-07);
  c = c * q + T(2.4801587301587302e-05);
  c = c * q - T(1.3888888888888889e-03);
  c = c * q + T(4.1666666666666664e-02);
  c = c * q - T(0.5);
  c = c * q + T(1);
  sine = T(2) * s * c;
  cosine = T(1) - T(2) * s * s;
}

// Rotation factors of a block: step = exp(i spacing (u - origin)), state = 1.
template <typename T>
struct Block {
  T step_cos[kBlock], step_sin[kBlock], cos[kBlock], sin[kBlock];

  inline void start(const T* u, int n, T origin, T spacing) {
    for (int i = 0; i < n; ++i) sincos_half(spacing * (u[i] - origin), step_sin[i], step_cos[i]);
    for (int i = 0; i < n; ++i) cos[i] = T(1), sin[i] = T(0);
  }
  inline void rotate(int i, T& c, T& s) const {
    const T next = c * step_cos[i] - s * step_sin[i];
    s = s * step_cos[i] + c * step_sin[i];
    c = next;
  }
};

// Adds sum_n (a_n + i w_j c_n) exp(i w_j u_n) to psi[j], j < length: two frequencies per pass.
template <typename T, bool kSharedC>
SIMD void add_sums(const T* __restrict u, const T* __restrict a, const T* __restrict c, int64_t count,
                   T origin, double spacing, int64_t length, std::complex<double>* psi) {
  Block<T> block;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int n = static_cast<int>(std::min<int64_t>(kBlock, count - begin));
    const T* ab = a + begin;
    const T* cb = kSharedC ? c : c + begin;
    block.start(u + begin, n, origin, T(spacing));
    for (int64_t j = 0; j < length; j += 2) {
      T ac0 = 0, as0 = 0, cc0 = 0, cs0 = 0, ac1 = 0, as1 = 0, cc1 = 0, cs1 = 0;
      for (int i = 0; i < n; ++i) {
        T x = block.cos[i], y = block.sin[i];
        const T weight = ab[i], jacobian = kSharedC ? T(1) : cb[i];
        ac0 += weight * x, as0 += weight * y, cc0 += jacobian * x, cs0 += jacobian * y;
        block.rotate(i, x, y);
        ac1 += weight * x, as1 += weight * y, cc1 += jacobian * x, cs1 += jacobian * y;
        block.rotate(i, x, y);
        block.cos[i] = x, block.sin[i] = y;
      }
      const double shared = kSharedC ? double(cb[0]) : 1.0;
      const double w0 = spacing * j * shared, w1 = spacing * (j + 1) * shared;
      psi[j] += std::complex<double>(ac0 - w0 * cs0, as0 + w0 * cc0);
      psi[j + 1] += std::complex<double>(ac1 - w1 * cs1, as1 + w1 * cc1);
    }
  }
}

// With p(u) = Re sum_j coefficient[j] exp(i w_j u): da = p, dc = p', du = a p' + c p''.
template <typename T, bool kSharedC>
SIMD void add_gradient(const T* __restrict u, const T* __restrict a, const T* __restrict c,
                       int64_t count, T origin, double spacing, int64_t length,
                       const std::complex<double>* coefficient, T* __restrict du, T* __restrict da,
                       T* __restrict dc) {
  Block<T> block;
  T p0[kBlock], p1[kBlock], p2[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int n = static_cast<int>(std::min<int64_t>(kBlock, count - begin));
    const T* ab = a + begin;
    const T* cb = kSharedC ? c : c + begin;
    block.start(u + begin, n, origin, T(spacing));
    for (int i = 0; i < n; ++i) p0[i] = p1[i] = p2[i] = T(0);
    for (int64_t j = 0; j < length; j += 2) {
      const T w0 = T(spacing * j), re0 = T(coefficient[j].real()), im0 = T(coefficient[j].imag());
      const T w1 = T(spacing * (j + 1)), re1 = T(coefficient[j + 1].real()),
              im1 = T(coefficient[j + 1].imag());
      for (int i = 0; i < n; ++i) {
        T x = block.cos[i], y = block.sin[i];
        const T even0 = re0 * x - im0 * y, odd0 = w0 * (re0 * y + im0 * x);
        block.rotate(i, x, y);
        const T even1 = re1 * x - im1 * y, odd1 = w1 * (re1 * y + im1 * x);
        block.rotate(i, x, y);
        block.cos[i] = x, block.sin[i] = y;
        p0[i] += even0 + even1;
        p1[i] -= odd0 + odd1;
        p2[i] -= w0 * w0 * even0 + w1 * w1 * even1;
      }
    }
    T shared_dc = 0;
    for (int i = 0; i < n; ++i) {
      du[begin + i] = ab[i] * p1[i] + (kSharedC ? cb[0] : cb[i]) * p2[i];
      da[begin + i] = p0[i];
      if (kSharedC) shared_dc += p1[i];
      else dc[begin + i] = p1[i];
    }
    if (kSharedC) dc[0] += shared_dc;
  }
}

template <typename T>
SIMD void find_range(const T* __restrict u, int64_t count, T& low, T& high) {
  T lo = u[0], hi = u[0];
  for (int64_t i = 1; i < count; ++i) {
    lo = u[i] < lo ? u[i] : lo;
    hi = u[i] > hi ? u[i] : hi;
  }
  low = lo, high = hi;
}

using Coefficients = std::vector<std::complex<double>>;

template <typename T>
struct Row {
  const T* u;
  const T* a;
  const T* c;
  int64_t count;
  bool shared_c;
  T* du;  // null when only the value is wanted
  T* da;
  T* dc;

  void sums(int64_t begin, int64_t n, T origin, double spacing, int64_t length,
            Coefficients& psi) const {
    if (shared_c) add_sums<T, true>(u + begin, a + begin, c, n, origin, spacing, length, psi.data());
    else add_sums<T, false>(u + begin, a + begin, c + begin, n, origin, spacing, length, psi.data());
  }
  void gradient(int64_t begin, int64_t n, T origin, double spacing, int64_t length,
                const Coefficients& coefficient) const {
    if (shared_c)
      add_gradient<T, true>(u + begin, a + begin, c, n, origin, spacing, length, coefficient.data(),
                            du + begin, da + begin, dc);
    else
      add_gradient<T, false>(u + begin, a + begin, c + begin, n, origin, spacing, length,
                             coefficient.data(), du + begin, da + begin, dc + begin);
  }
};

// All of the row under one rule.
template <typename T>
double one_cell(const Row<T>& row, const Rules& rules, int64_t k, T origin) {
  const int64_t length = rules.length[k];
  const double* weight = rules.row(k);
  const double scale = 1.0 / (double(row.count) * row.count);
  Coefficients psi(length + 1);  // one spare: frequencies are taken two at a time
  row.sums(0, row.count, origin, rules.spacing[k], length, psi);
  double value = 0;
  for (int64_t j = 0; j < length; ++j) value += weight[j] * std::norm(psi[j]);
  if (row.du) {
    for (int64_t j = 0; j < length; ++j) psi[j] = 2.0 * scale * weight[j] * std::conj(psi[j]);
    psi[length] = 0;
    row.gradient(0, row.count, origin, rules.spacing[k], length, psi);
  }
  return value * scale;
}

// A heavy-tailed row: sort into cells of width `reach`, then couple neighbours.
template <typename T>
double many_cells(const Row<T>& row, const Rules& rules, int64_t k, T low) {
  const int64_t length = rules.length[k], count = row.count;
  const double spacing = rules.spacing[k], width = rules.reach;
  const double* weight = rules.row(k);
  const double scale = 1.0 / (double(count) * count);

  std::vector<std::pair<double, int64_t>> order(count);  // (cell, sample); a double holds any cell
  for (int64_t i = 0; i < count; ++i)
    order[i] = {std::floor((double(row.u[i]) - low) / width), i};
  std::sort(order.begin(), order.end());
  std::vector<T> u(count), a(count), c(row.shared_c ? 1 : count), du, da, dc;
  for (int64_t i = 0; i < count; ++i) {
    const auto [cell, sample] = order[i];
    // The position inside the cell, from its middle: small, however far away the cell is.
    u[i] = T(double(row.u[sample]) - low - (cell + 0.5) * width);
    a[i] = row.a[sample];
    if (!row.shared_c) c[i] = row.c[sample];
  }
  if (row.shared_c) c[0] = row.c[0];
  if (row.du) du.resize(count), da.resize(count), dc.resize(c.size());
  const Row<T> sorted{u.data(), a.data(), c.data(), count, row.shared_c, du.data(), da.data(), dc.data()};

  struct Cell {
    double index;
    int64_t begin, end;
    Coefficients psi;
  };
  std::vector<std::complex<double>> shift(length);  // from one cell's middle to the next one's
  for (int64_t j = 0; j < length; ++j) shift[j] = std::polar(1.0, spacing * j * width);

  auto read_cell = [&](int64_t begin) {
    Cell cell{begin < count ? order[begin].first : INFINITY, begin, begin, Coefficients(length + 1)};
    while (cell.end < count && order[cell.end].first == cell.index) ++cell.end;
    if (begin < count) sorted.sums(begin, cell.end - begin, T(0), spacing, length, cell.psi);
    return cell;
  };

  double kernel_at_0 = 0, curvature_at_0 = 0;
  for (int64_t j = 0; j < length; ++j) {
    kernel_at_0 += weight[j];
    curvature_at_0 -= weight[j] * spacing * j * spacing * j;
  }
  // A point with no neighbour interacts with itself alone. In closed form its force is zero, not rounding times
  // the square of a score that may be huge out there.
  auto alone = [&](int64_t i) {
    const double ai = sorted.a[i], ci = sorted.c[row.shared_c ? 0 : i];
    if (row.du) {
      du[i] = 0;
      da[i] = T(2.0 * scale * kernel_at_0 * ai);
      dc[row.shared_c ? 0 : i] -= T(2.0 * scale * curvature_at_0 * ci);
    }
    return kernel_at_0 * ai * ai - curvature_at_0 * ci * ci;
  };

  double value = 0;
  Coefficients around(length + 1);
  Cell previous{-INFINITY, 0, 0, Coefficients(length + 1)}, here = read_cell(0);
  while (here.begin < count) {
    Cell next = read_cell(here.end);
    const bool has_next = next.index == here.index + 1, has_previous = previous.index == here.index - 1;
    const bool is_alone = here.end - here.begin == 1 && !has_next && !has_previous;
    if (is_alone) value += alone(here.begin);
    for (int64_t j = 0; j < length && !is_alone; ++j) {
      around[j] = here.psi[j];
      if (has_next) around[j] += next.psi[j] * shift[j];
      if (has_previous) around[j] += previous.psi[j] * std::conj(shift[j]);
      value += weight[j] * std::real(here.psi[j] * std::conj(around[j]));
      around[j] = 2.0 * scale * weight[j] * std::conj(around[j]);
    }
    if (row.du && !is_alone) sorted.gradient(here.begin, here.end - here.begin, T(0), spacing, length, around);
    previous = std::move(here);
    here = std::move(next);
  }
  if (row.du) {
    for (int64_t i = 0; i < count; ++i) {
      row.du[order[i].second] = du[i];
      row.da[order[i].second] = da[i];
      if (!row.shared_c) row.dc[order[i].second] = dc[i];
    }
    if (row.shared_c) row.dc[0] = dc[0];
  }
  return value * scale;
}

template <typename T>
double row_value(const Row<T>& row, const Rules& rules) {
  T low, high;
  find_range(row.u, row.count, low, high);
  if (!std::isfinite(double(high) - double(low))) return NAN;
  if (row.du && row.shared_c) row.dc[0] = 0;
  const int64_t last = rules.spacing.size() - 1;
  for (int64_t k = 0; k <= last; ++k)
    if (double(high) - double(low) <= rules.widest_range(k))
      return one_cell(row, rules, k, T(low + (high - low) / 2));
  return many_cells(row, rules, last, low);
}

// Runs task(i) for i < count on the pool and on the calling thread, which may itself belong to the
// pool: a helper that never gets to start has claimed no work, so nobody waits for it.
template <typename Task>
void parallel_for(ffi::ThreadPool& pool, int64_t count, Task task) {
  struct Shared {
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
  };
  auto shared = std::make_shared<Shared>();
  auto work = [shared, count, task] {
    for (int64_t i; (i = shared->next++) < count;) {
      task(i);
      if (++shared->done == count) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->finished.notify_all();
      }
    }
  };
  for (int64_t t = 1; t < std::min(pool.num_threads(), count); ++t) pool.Schedule(decltype(work)(work));
  work();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done == count; });
}

template <typename T>
void all_rows(ffi::ThreadPool& pool, int64_t rows, int64_t count, int64_t c_count, const T* u, const T* a,
              const T* c, const Rules& rules, T* value, T* du, T* da, T* dc) {
  parallel_for(pool, rows, [=](int64_t m) {
    const Row<T> row{u + m * count,
                     a + m * count,
                     c + m * c_count,
                     count,
                     /*shared_c=*/c_count != count,
                     du ? du + m * count : nullptr,
                     da ? da + m * count : nullptr,
                     dc ? dc + m * c_count : nullptr};
    value[m] = T(row_value(row, rules));
  });
}

template <ffi::DataType kType>
ffi::Error value_impl(ffi::ThreadPool pool, ffi::Buffer<kType> u, ffi::Buffer<kType> a,
                      ffi::Buffer<kType> c, ffi::ResultBuffer<kType> value,
                      ffi::Span<const double> spacing, ffi::Span<const int64_t> length,
                      ffi::Span<const double> weights, double reach) {
  all_rows<ffi::NativeType<kType>>(pool, value->element_count(), u.dimensions().back(),
                                   c.dimensions().back(), u.typed_data(), a.typed_data(), c.typed_data(),
                                   {spacing, length, weights, reach}, value->typed_data(), nullptr,
                                   nullptr, nullptr);
  return ffi::Error::Success();
}

template <ffi::DataType kType>
ffi::Error gradient_impl(ffi::ThreadPool pool, ffi::Buffer<kType> u, ffi::Buffer<kType> a,
                         ffi::Buffer<kType> c, ffi::ResultBuffer<kType> value,
                         ffi::ResultBuffer<kType> du, ffi::ResultBuffer<kType> da,
                         ffi::ResultBuffer<kType> dc, ffi::Span<const double> spacing,
                         ffi::Span<const int64_t> length, ffi::Span<const double> weights, double reach) {
  all_rows<ffi::NativeType<kType>>(pool, value->element_count(), u.dimensions().back(),
                                   c.dimensions().back(), u.typed_data(), a.typed_data(), c.typed_data(),
                                   {spacing, length, weights, reach}, value->typed_data(),
                                   du->typed_data(), da->typed_data(), dc->typed_data());
  return ffi::Error::Success();
}

// The median of |t_i - t_j| over i < j. On the sorted row the gaps within a bound are counted in one
// sweep, so a few steps of interpolation leave a short list of candidates to select from.
template <typename T>
double median_gap(std::vector<T>& t) {
  std::sort(t.begin(), t.end());
  const int64_t n = t.size(), pairs = n * (n - 1) / 2, rank = (pairs + 1) / 2;  // 1-based, lower middle
  auto count_within = [&](T bound) {
    int64_t total = 0;
    for (int64_t i = 0, j = 1; j < n; ++j) {
      while (t[j] - t[i] > bound) ++i;
      total += j - i;
    }
    return total;
  };
  T low = -1, high = t[n - 1] - t[0];  // rank is above count(low), rank + 1 within count(high)
  int64_t at_low = 0, at_high = pairs;
  for (int step = 0; step < 60 && at_high - at_low > n; ++step) {
    // Counts grow almost linearly with the bound: aim a little to either side of the rank in turn, so
    // that both ends close in; plain bisection now and then is the safeguard.
    const int64_t aim = step % 2 ? rank + n / 3 : rank - n / 3;
    const double share = double(aim - at_low) / double(at_high - at_low);
    const bool inside = step % 6 != 5 && share > 0 && share < 1;
    const T middle = std::max(T(0), T(low + (inside ? share : 0.5) * (double(high) - low)));
    if (!(middle > low && middle < high)) break;  // ties: nothing left to divide
    const int64_t total = count_within(middle);
    if (total < rank) low = middle, at_low = total;
    else if (total > rank) high = middle, at_high = total;
    else break;
  }
  std::vector<T> gaps;
  gaps.reserve(2 * n);
  for (int64_t i = 0, j = 1; j < n; ++j) {
    while (t[j] - t[i] > high) ++i;
    for (int64_t k = i; k < j && t[j] - t[k] > low; ++k) gaps.push_back(t[j] - t[k]);
  }
  const auto middle = gaps.begin() + (rank - at_low - 1);
  std::nth_element(gaps.begin(), middle, gaps.end());
  if (pairs % 2) return *middle;
  return 0.5 * (double(*middle) + double(*std::min_element(middle + 1, gaps.end())));
}

template <ffi::DataType kType>
ffi::Error median_impl(ffi::ThreadPool pool, ffi::Buffer<kType> t, ffi::ResultBuffer<kType> median) {
  using T = ffi::NativeType<kType>;
  const int64_t count = t.dimensions().back();
  const T* rows = t.typed_data();
  T* out = median->typed_data();
  parallel_for(pool, median->element_count(), [=](int64_t m) {
    std::vector<T> row(rows + m * count, rows + (m + 1) * count);
    const bool finite = std::all_of(row.begin(), row.end(), [](T v) { return std::isfinite(v); });
    out[m] = finite ? T(median_gap(row)) : T(NAN);
  });
  return ffi::Error::Success();
}

// exp(-q / 2) for q >= 0: 2^n 2^f with |f| <= 1/2, the second factor by its Taylor polynomial.
template <typename T>
inline T gaussian(T q) {
  constexpr bool kDouble = sizeof(T) == 8;
  constexpr T kLowest = kDouble ? -1022 : -126;  // below it the result is as good as zero
  const T power = q * T(-0.72134752044448170);   // -log2(e) / 2
  const T bounded = power < kLowest ? kLowest : power;
  const T whole = std::floor(bounded + T(0.5)), f = (bounded - whole) * T(0.69314718055994531);
  T e;
  if constexpr (kDouble) {
    e = T(2.0876756987868100e-09);  // 1/12!
    e = e * f + T(2.5052108385441720e-08);
    e = e * f + T(2.7557319223985888e-07);
    e = e * f + T(2.7557319223985893e-06);
    e = e * f + T(2.4801587301587302e-05);
  } else {
    e = T(2.4801587301587302e-05);  // 1/8!
  }
  e = e * f + T(1.9841269841269841e-04);
  e = e * f + T(1.3888888888888889e-03);
  e = e * f + T(8.3333333333333332e-03);
  e = e * f + T(4.1666666666666664e-02);
  e = e * f + T(1.6666666666666666e-01);
  e = e * f + T(0.5);
  e = e * f + T(1);
  e = e * f + T(1);
  using Bits = std::conditional_t<kDouble, int64_t, int32_t>;
  const Bits exponent = (static_cast<Bits>(whole) + (kDouble ? 1023 : 127)) << (kDouble ? 52 : 23);
  T scale;
  std::memcpy(&scale, &exponent, sizeof(T));
  return power < kLowest ? T(0) : e * scale;
}

// The witness of one row at its own samples by all pairs, for the Gaussian kernel: for few samples less work than
// the sums above. pull = mean_j a_j k(u_j - u), push = mean_j c k'(u_j - u); returns V.
template <typename T>
SIMD double pair_forces(const T* __restrict u, const T* __restrict a, T c, int64_t count, T* __restrict pull,
                        T* __restrict push) {
  double value = 0;
  for (int64_t i = 0; i < count; ++i) {
    T attraction = 0, repulsion = 0, curvature = 0;
    for (int64_t j = 0; j < count; ++j) {
      const T d = u[j] - u[i], q = d * d, k = gaussian(q);
      attraction += a[j] * k, repulsion -= d * k, curvature += (q - T(1)) * k;
    }
    pull[i] = attraction / T(count);
    push[i] = c * repulsion / T(count);
    value += double(a[i]) * (pull[i] + T(2) * push[i]) - double(c) * c * curvature / count;
  }
  return value / count;
}

template <ffi::DataType kType>
ffi::Error forces_impl(ffi::ThreadPool pool, ffi::Buffer<kType> u, ffi::Buffer<kType> a, ffi::Buffer<kType> c,
                       ffi::ResultBuffer<kType> value, ffi::ResultBuffer<kType> pull,
                       ffi::ResultBuffer<kType> push) {
  using T = ffi::NativeType<kType>;
  const int64_t count = u.dimensions().back();
  const T *us = u.typed_data(), *as = a.typed_data(), *cs = c.typed_data();
  T *values = value->typed_data(), *pulls = pull->typed_data(), *pushes = push->typed_data();
  parallel_for(pool, value->element_count(), [=](int64_t m) {
    const int64_t row = m * count;
    values[m] = T(pair_forces(us + row, as + row, cs[m], count, pulls + row, pushes + row));
  });
  return ffi::Error::Success();
}

#define RULES                                                                         \
  .Attr<ffi::Span<const double>>("spacing").Attr<ffi::Span<const int64_t>>("length") \
      .Attr<ffi::Span<const double>>("weights").Attr<double>("reach")
#define HANDLERS(suffix, type)                                                                   \
  XLA_FFI_DEFINE_HANDLER(value_##suffix, value_impl<type>,                                       \
                         ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<type>>()        \
                             .Arg<ffi::Buffer<type>>().Arg<ffi::Buffer<type>>()                  \
                             .Ret<ffi::Buffer<type>>() RULES);                                   \
  XLA_FFI_DEFINE_HANDLER(gradient_##suffix, gradient_impl<type>,                                 \
                         ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<type>>()        \
                             .Arg<ffi::Buffer<type>>().Arg<ffi::Buffer<type>>()                  \
                             .Ret<ffi::Buffer<type>>().Ret<ffi::Buffer<type>>()                  \
                             .Ret<ffi::Buffer<type>>().Ret<ffi::Buffer<type>>() RULES);          \
  XLA_FFI_DEFINE_HANDLER(median_##suffix, median_impl<type>,                                     \
                         ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<type>>()        \
                             .Ret<ffi::Buffer<type>>());                                         \
  XLA_FFI_DEFINE_HANDLER(forces_##suffix, forces_impl<type>,                                     \
                         ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<type>>()        \
                             .Arg<ffi::Buffer<type>>().Arg<ffi::Buffer<type>>()                  \
                             .Ret<ffi::Buffer<type>>().Ret<ffi::Buffer<type>>()                  \
                             .Ret<ffi::Buffer<type>>());
HANDLERS(f32, ffi::F32)
HANDLERS(f64, ffi::F64)

// The module is a table of XLA call targets: {name: capsule}.
int add_target(PyObject* module, const char* name, XLA_FFI_Handler* handler) {
  return PyModule_AddObject(module, name,
                            PyCapsule_New(reinterpret_cast<void*>(handler), nullptr, nullptr));
}
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_trig", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__trig() {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  if (add_target(module, "value_f32", value_f32) || add_target(module, "value_f64", value_f64) ||
      add_target(module, "gradient_f32", gradient_f32) ||
      add_target(module, "gradient_f64", gradient_f64) ||
      add_target(module, "median_f32", median_f32) || add_target(module, "median_f64", median_f64) ||
      add_target(module, "forces_f32", forces_f32) || add_target(module, "forces_f64", forces_f64))
    return nullptr;
  return module;
}
