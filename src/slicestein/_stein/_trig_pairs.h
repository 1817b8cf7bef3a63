// Sums and medians over all pairs of samples of a slice: the compiled twins of functions in kernels and exact.

#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "_trig_base.h"

namespace slicestein {

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

template <typename To, typename From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// The gaps t_j - t_i, i < j, of a sorted row. On it the gaps within a bound are counted in one sweep.
template <typename T>
struct Gaps {
  const T* t;
  int64_t n;

  int64_t count_within(T bound) const {
    int64_t total = 0;
    for (int64_t i = 0, j = 1; j < n; ++j) {
      while (t[j] - t[i] > bound) ++i;
      total += j - i;
    }
    return total;
  }
  // The smallest gap above a bound; the bound must be below the range.
  T next_above(T bound) const {
    T next = t[n - 1] - t[0];
    for (int64_t i = 0, j = 1; j < n; ++j) {
      while (t[j] - t[i] > bound) ++i;
      if (i > 0) next = std::min(next, T(t[j] - t[i - 1]));
    }
    return next;
  }
  std::vector<T> between(T low, T high) const {
    std::vector<T> gaps;
    for (int64_t i = 0, j = 1; j < n; ++j) {
      while (t[j] - t[i] > high) ++i;
      for (int64_t k = i; k < j && t[j] - t[k] > low; ++k) gaps.push_back(t[j] - t[k]);
    }
    return gaps;
  }
};

// A number between two gaps, or `high` if there is none. Counts grow almost linearly with the bound: interpolation aims
// a little to either side of the rank in turn, so that both ends close in. Every third step halves the numbers that the
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
  if (!std::is_sorted(t, t + n)) std::sort(t, t + n);
  const Gaps<T> gaps{t, n};
  const int64_t pairs = n * (n - 1) / 2, rank = (pairs + 1) / 2;  // 1-based, of the lower middle
  T low = -1, high = t[n - 1] - t[0];                             // at_low < rank <= at_high
  if (!is_finite(high)) return NAN;
  int64_t at_low = 0, at_high = pairs;
  for (int step = 0; at_high - at_low > n; ++step) {
    const int64_t aim = step % 2 ? rank + n / 3 : rank - n / 3;
    const T middle = between(low, high, double(aim - at_low) / double(at_high - at_low), step % 3 == 2);
    if (!(middle < high)) break;  // ties: nothing left to divide
    const int64_t total = gaps.count_within(middle);
    if (total < rank) low = middle, at_low = total;
    else high = middle, at_high = total;
  }
  double lower = high, upper = high;
  if (at_high - at_low <= n) {
    std::vector<T> list = gaps.between(low, high);
    const auto at_rank = list.begin() + (rank - at_low - 1);
    std::nth_element(list.begin(), at_rank, list.end());
    lower = *at_rank;
    if (at_rank + 1 != list.end()) upper = *std::min_element(at_rank + 1, list.end());
  }
  if (pairs % 2) return lower;
  if (at_high == rank) upper = gaps.next_above(high);
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
