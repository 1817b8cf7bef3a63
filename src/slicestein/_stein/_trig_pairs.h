// Sums and medians over all pairs of samples of a slice: the compiled twins of functions in kernels and exact.

#pragma once

#include <type_traits>
#include <vector>

#include "_trig_base.h"

namespace slicestein {

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// The pairs i < j of a sorted row whose gap t_j - t_i is within a bound: i from first[j] on.
template <typename T>
struct Within {
  T bound;
  int64_t count;
  std::vector<int32_t> first;
};

// The pairs within a bound between two others, by as many halvings as the widest stretch between these needs: all j at
// once, because branches that nobody can predict would cost more than the halvings.
template <typename T>
SIMD void find_first(const T* __restrict t, int64_t n, T bound, const int32_t* __restrict from,
                     const int32_t* __restrict to, int32_t* __restrict first) {
  int32_t widest = 0, stride = 1;
  for (int64_t j = 0; j < n; ++j) widest = std::max(widest, to[j] - from[j]), first[j] = from[j];
  while (stride <= widest / 2) stride *= 2;
  for (; stride > 0; stride /= 2) {
    for (int64_t j = 0; j < n; ++j) {
      const int32_t probe = first[j] + stride;
      const bool beyond = probe <= to[j] && t[j] - t[(probe <= to[j] ? probe : 1) - 1] > bound;
      first[j] = beyond ? probe : first[j];
    }
  }
}

// A number between two gaps, or `high` if there is none. Counts grow almost linearly with the bound: interpolation aims
// a little to either side of the rank in turn, so that both ends close in. Every fourth step halves the numbers that the
// type has between the ends, which ends any search, whatever the scales and ties of the data.
template <typename T>
T between(T low, T high, double share, bool halve) {
  if (!halve && share > 0 && share < 1) {
    const T middle = T(low + share * (double(high) - low));
    if (middle > low && middle >= 0 && middle < high) return middle;
  }
  if (low < 0) return T(0);
  const Bits<T> from = bit_cast<Bits<T>>(T(low)), to = bit_cast<Bits<T>>(T(high));
  return bit_cast<T>(Bits<T>(from + (to - from + 1) / 2));
}

// The median of |t_i - t_j| over i < j; sorts the row. NaN without pairs, or where a value or the range is not finite.
template <typename T>
double median_gap(T* t, int64_t n) {
  if (n < 2 || !all_finite(t, n)) return NAN;
  if (!std::is_sorted(t, t + n)) sort_by(t, n, [](T x) { return x; });
  if (!is_finite(t[n - 1] - t[0])) return NAN;
  const int64_t pairs = n * (n - 1) / 2, rank = (pairs + 1) / 2;  // 1-based, of the lower middle
  const double guess = 0.707 * (double(t[n - 1 - n / 4]) - double(t[n / 4]));  // from the quartiles of a normal sample

  using Firsts = std::vector<int32_t>;
  Within<T> low{T(-1), 0, Firsts(n)}, high{t[n - 1] - t[0], pairs, Firsts(n)}, middle{T(0), 0, Firsts(n)};
  std::iota(low.first.begin(), low.first.end(), 0);
  for (int step = 0; high.count - low.count > n; ++step) {
    const int64_t aim = step % 2 ? rank + n / 3 : rank - n / 3;
    const double share = step < 2 ? ((step == 0 ? 0.9 : 1.1) * guess - low.bound) / (double(high.bound) - low.bound)
                                  : double(aim - low.count) / double(high.count - low.count);
    middle.bound = between(low.bound, high.bound, share, step % 4 == 3);
    if (!(middle.bound < high.bound)) break;  // ties: nothing left to divide
    find_first(t, n, middle.bound, high.first.data(), low.first.data(), middle.first.data());
    middle.count = pairs - std::accumulate(middle.first.begin(), middle.first.end(), int64_t(0));
    std::swap(middle.count < rank ? low : high, middle);
  }
  double lower = high.bound, upper = high.bound;
  if (high.count - low.count <= n) {
    std::vector<T> gaps;
    gaps.reserve(n);
    for (int64_t j = 0; j < n; ++j)
      for (int32_t i = high.first[j]; i < low.first[j]; ++i) gaps.push_back(t[j] - t[i]);
    const auto at_rank = gaps.begin() + (rank - low.count - 1);
    std::nth_element(gaps.begin(), at_rank, gaps.end());
    lower = *at_rank;
    if (at_rank + 1 != gaps.end()) upper = *std::min_element(at_rank + 1, gaps.end());
  }
  if (pairs % 2) return lower;
  if (high.count == rank) {  // the next one is the smallest beyond
    T next = t[n - 1] - t[0];
    for (int64_t j = 0; j < n; ++j)
      if (high.first[j] > 0) next = std::min(next, T(t[j] - t[high.first[j] - 1]));
    upper = next;
  }
  return lower + 0.5 * (upper - lower);  // the sum may be infinite
}

// The smallest power of two that is not denormal: below it the kernel is taken for zero.
template <typename T>
constexpr T kLowestPower = sizeof(T) == 8 ? -1022 : -126;

// 2^x for kLowestPower <= x <= 0: 2^n 2^f with |f| <= 1/2, the second factor by its Taylor polynomial.
template <typename T>
inline T exp2_negative(T x) {
  constexpr bool kDouble = sizeof(T) == 8;
  const T whole = std::floor(x + T(0.5)), f = (x - whole) * T(0.69314718055994531);
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
  const Bits<T> exponent = (static_cast<Bits<T>>(whole) + (kDouble ? 1023 : 127)) << (kDouble ? 52 : 23);
  return e * bit_cast<T>(exponent);
}

// The witness of one row at its own samples by all pairs, for the Gaussian kernel: for few samples less work than
// the trapezoid rule. pull_i = mean_j a_j k(u_j - u_i), push_i = mean_j c_j k'(u_j - u_i); returns V.
template <typename T, bool kSharedC>
SIMD double sum_forces(const T* __restrict u, const T* __restrict a, const T* __restrict c, int64_t count,
                       T* __restrict pull, T* __restrict push) {
  double value = 0;
  for (int64_t i = 0; i < count; ++i) {
    T attraction = 0, repulsion = 0, curvature = 0;
    for (int64_t j = 0; j < count; ++j) {
      const T d = u[j] - u[i], power = d * d * T(-0.72134752044448170);  // -log2(e) / 2
      const T bounded = power < kLowestPower<T> ? kLowestPower<T> : power;
      const T k = power < kLowestPower<T> ? T(0) : exp2_negative(bounded), weight = kSharedC ? k : c[j] * k;
      // The square of the distance from its bounded power: itself it may be infinite.
      const T less_one = bounded * T(-1.3862943611198906) - T(1);
      attraction += a[j] * k, repulsion -= d * weight, curvature += less_one * weight;
    }
    const double shared = kSharedC ? double(c[0]) : 1.0, own = c[kSharedC ? 0 : i];
    pull[i] = attraction / T(count);
    push[i] = T(shared * repulsion / count);
    value += double(a[i]) * (double(pull[i]) + 2.0 * push[i]) - own * shared * curvature / count;
  }
  return value / count;
}

// As above; a value of the row that is not finite, or a range that overflows, makes all of it NaN.
template <typename T>
double pair_forces(const T* u, const T* a, const T* c, int64_t count, int64_t c_count, T* pull, T* push) {
  if (count == 0) return NAN;
  T low, high;
  find_range(u, count, low, high);
  if (!(is_finite(high - low) && all_finite(u, count) && all_finite(a, count) && all_finite(c, c_count))) {
    fill_nan(pull, count);
    fill_nan(push, count);
    return NAN;
  }
  return c_count == count ? sum_forces<T, false>(u, a, c, count, pull, push)
                          : sum_forces<T, true>(u, a, c, count, pull, push);
}

}  // namespace slicestein
