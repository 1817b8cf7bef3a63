// What the kernels should give: the definitions, pair by pair, in long double.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using Real = long double;

// A number, and the size of the terms that it is the sum of: rounding is relative to the latter.
struct Sum {
  Real value = 0, size = 0;
  void add(Real term) { value += term, size += std::fabs(term); }
  Sum times(Real factor) const { return {value * factor, size * std::fabs(factor)}; }
};

// exp(-d^2 / 2) and its derivatives.
struct Gaussian {
  Real k = 0, k1 = 0, k2 = 0, k3 = 0;
  explicit Gaussian(Real d) {
    if (std::fabs(d) > 100) return;
    k = std::exp(-d * d / 2);
    k1 = -d * k, k2 = (d * d - 1) * k, k3 = (3 * d - d * d * d) * k;
  }
};

struct Expected {
  Sum value;
  std::vector<Sum> du, da, dc, pull, push;
};

// V = mean_ij a_i a_j k + (c_i a_j - c_j a_i) k' - c_i c_j k'' at u_i - u_j, its derivatives, and the witness in two
// parts.
template <typename T>
Expected expected_row(const T* u, const T* a, const T* c, int64_t n, bool shared_c) {
  Expected result;
  auto resize = [n](std::vector<Sum>& sums) { sums.assign(n, Sum()); };
  for (auto* sums : {&result.du, &result.da, &result.dc, &result.pull, &result.push}) resize(*sums);
  for (int64_t i = 0; i < n; ++i) {
    const Real ai = a[i], ci = c[shared_c ? 0 : i];
    for (int64_t j = 0; j < n; ++j) {
      const Real aj = a[j], cj = c[shared_c ? 0 : j];
      const Gaussian g(Real(u[i]) - Real(u[j]));
      result.value.add(ai * aj * g.k), result.value.add(2 * ci * aj * g.k1), result.value.add(-ci * cj * g.k2);
      result.da[i].add(aj * g.k), result.da[i].add(-cj * g.k1);
      result.dc[i].add(aj * g.k1), result.dc[i].add(-cj * g.k2);
      result.du[i].add(ai * aj * g.k1), result.du[i].add((ci * aj - cj * ai) * g.k2);
      result.du[i].add(-ci * cj * g.k3);
      result.pull[i].add(aj * g.k), result.push[i].add(-cj * g.k1);
    }
  }
  const Real pairs = Real(n) * n;
  result.value = result.value.times(1 / pairs);
  for (auto* sums : {&result.du, &result.da, &result.dc})
    for (Sum& sum : *sums) sum = sum.times(2 / pairs);
  for (auto* sums : {&result.pull, &result.push})
    for (Sum& sum : *sums) sum = sum.times(1 / Real(n));
  if (shared_c) {
    Sum total;
    for (const Sum& sum : result.dc) total.value += sum.value, total.size += sum.size;
    result.dc.assign(1, total);
  }
  return result;
}

// The two middle values of all gaps, each rounded to the type, averaged.
template <typename T>
Real expected_median(std::vector<T> t) {
  std::vector<T> gaps;
  for (size_t i = 0; i < t.size(); ++i)
    for (size_t j = 0; j < i; ++j) gaps.push_back(std::fabs(t[i] - t[j]));
  std::sort(gaps.begin(), gaps.end());
  return (Real(gaps[(gaps.size() - 1) / 2]) + Real(gaps[gaps.size() / 2])) / 2;
}

// Feature j of one row on the bounded line, its real and imaginary part added to two sums.
inline void add_feature(Real y, Real a, Real c, Real bulk, Real tail, Real w, Real root, Sum& real, Sum& imag) {
  const Real size = std::fabs(y), z = size > bulk ? (size - bulk) / tail : 0;
  const Real cosine = 1 / std::hypot(Real(1), z), u = std::copysign(std::min(size, bulk) + tail * z * cosine, y);
  const Real jacobian = c * cosine * cosine * cosine, x = std::cos(w * u), s = std::sin(w * u);
  real.add(root * a * x), real.add(-root * w * jacobian * s);
  imag.add(root * a * s), imag.add(root * w * jacobian * x);
  // Cosine and sine are rounded relative to one, not to themselves.
  const Real terms = root * (std::fabs(a) + w * std::fabs(jacobian));
  real.size += terms, imag.size += terms;
}
