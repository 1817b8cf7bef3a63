// V-statistics of slices and their gradients by the trapezoid rule: the compiled twin of fourier.
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

#pragma once

#include <complex>
#include <utility>
#include <vector>

#include "_trig_base.h"

namespace slicestein {

// The quadrature rules, narrowest first; row k of `weights` (count, stride) belongs to spacing[k].
struct Rules {
  const double* spacing;
  const int64_t* length;
  const double* weights;
  int64_t count, stride;
  double reach;
  const double* row(int64_t k) const { return weights + k * stride; }
  double widest_range(int64_t k) const { return kTwoPi / spacing[k] - reach; }
};

using Coefficients = std::vector<std::complex<double>>;

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
struct Row {
  const T* u;
  const T* a;
  const T* c;
  int64_t count;
  bool shared_c;
  T* du;  // null when only the value is wanted
  T* da;
  T* dc;

  int64_t c_count() const { return shared_c ? 1 : count; }
  bool finite() const {
    return all_finite(u, count) && all_finite(a, count) && all_finite(c, c_count());
  }
  double fill_nan() const {
    if (dc) {  // not du, which may be null for no samples, too
      slicestein::fill_nan(du, count);
      slicestein::fill_nan(da, count);
      slicestein::fill_nan(dc, c_count());
    }
    return NAN;
  }
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

// A copy of a row, sorted and cut into cells.
template <typename T>
struct Cells {
  struct Cell {
    int64_t begin, end;
    bool after_neighbour;  // the cell before is adjacent to this one
  };
  std::vector<std::pair<T, int64_t>> order;  // u and position in the row
  std::vector<T> u, a, c, du, da, dc;        // u from the middle of its cell: small, however far away that is
  std::vector<Cell> cells;

  Cells(const Row<T>& row, double width)
      : order(row.count), u(row.count), a(row.count), c(row.c, row.c + row.c_count()) {
    for (int64_t i = 0; i < row.count; ++i) order[i] = {row.u[i], i};
    sort_by(order.data(), row.count, [](const auto& item) { return item.first; });
    for (int64_t i = 0; i < row.count; ++i) a[i] = row.a[order[i].second];
    if (!row.shared_c)
      for (int64_t i = 0; i < row.count; ++i) c[i] = row.c[order[i].second];
    cut(width);
    if (row.du) du.resize(u.size()), da.resize(u.size()), dc.resize(c.size());
  }

  // A gap of a width starts a new grid of cells, so that the number of a cell is at most that of the samples, and
  // positions are differences of numbers of the same size.
  void cut(double width) {
    double origin = 0, number = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(u.size()); ++i) {
      const double x = order[i].first;
      const bool apart = i == 0 || x - double(order[i - 1].first) >= width;
      if (apart) origin = x;
      const double own = std::floor((x - origin) / width);
      if (apart || own != number) cells.push_back({i, i, !apart && own == number + 1});
      number = own;
      cells.back().end = i + 1;
      u[i] = T((x - origin) - (number + 0.5) * width);
    }
  }

  Row<T> row() {
    const int64_t count = u.size();
    const bool shared_c = c.size() == 1 && count > 1;
    return {u.data(), a.data(), c.data(), count, shared_c, du.empty() ? nullptr : du.data(), da.data(), dc.data()};
  }
  bool has_next(size_t k) const { return k + 1 < cells.size() && cells[k + 1].after_neighbour; }
  bool alone(size_t k) const {
    return cells[k].end - cells[k].begin == 1 && !cells[k].after_neighbour && !has_next(k);
  }
  void scatter(const Row<T>& to) const {
    for (int64_t i = 0; i < to.count; ++i) {
      to.du[order[i].second] = du[i];
      to.da[order[i].second] = da[i];
      if (!to.shared_c) to.dc[order[i].second] = dc[i];
    }
    if (to.shared_c) to.dc[0] = dc[0];
  }
};

// A point with no neighbour interacts with itself alone. In closed form its force is zero, not rounding times the
// square of a score that may be huge out there.
template <typename T>
double lone_point(const Row<T>& row, int64_t i, double kernel_at_0, double curvature_at_0, double scale) {
  const int64_t at_c = row.shared_c ? 0 : i;
  const double a = row.a[i], c = row.c[at_c];
  if (row.du) {
    row.du[i] = 0;
    row.da[i] = T(2.0 * scale * kernel_at_0 * a);
    row.dc[at_c] -= T(2.0 * scale * curvature_at_0 * c);
  }
  return kernel_at_0 * a * a - curvature_at_0 * c * c;
}

// A heavy-tailed row: neighbouring cells are coupled.
template <typename T>
double many_cells(const Row<T>& original, const Rules& rules, int64_t k) {
  const int64_t length = rules.length[k];
  const double spacing = rules.spacing[k], scale = 1.0 / (double(original.count) * original.count);
  const double* weight = rules.row(k);
  Cells<T> cells(original, rules.reach);
  const Row<T> row = cells.row();

  Coefficients shift(length);  // from one cell's middle to the next one's
  double kernel_at_0 = 0, curvature_at_0 = 0;
  for (int64_t j = 0; j < length; ++j) {
    const double w = spacing * j;
    shift[j] = std::polar(1.0, w * rules.reach);
    kernel_at_0 += weight[j];
    curvature_at_0 -= weight[j] * w * w;
  }

  double value = 0;
  Coefficients previous(length + 1), here(length + 1), next(length + 1), around(length + 1);
  auto read = [&](size_t number, Coefficients& psi) {
    const auto& cell = cells.cells[number];
    std::fill(psi.begin(), psi.end(), 0.0);
    row.sums(cell.begin, cell.end - cell.begin, T(0), spacing, length, psi);
  };
  for (size_t number = 0; number < cells.cells.size(); ++number) {
    const auto& cell = cells.cells[number];
    if (cells.alone(number)) {
      value += lone_point(row, cell.begin, kernel_at_0, curvature_at_0, scale);
      continue;
    }
    if (!cell.after_neighbour) read(number, here);
    if (cells.has_next(number)) read(number + 1, next);
    for (int64_t j = 0; j < length; ++j) {
      around[j] = here[j];
      if (cells.has_next(number)) around[j] += next[j] * shift[j];
      if (cell.after_neighbour) around[j] += previous[j] * std::conj(shift[j]);
      value += weight[j] * std::real(here[j] * std::conj(around[j]));
      around[j] = 2.0 * scale * weight[j] * std::conj(around[j]);
    }
    if (row.du) row.gradient(cell.begin, cell.end - cell.begin, T(0), spacing, length, around);
    std::swap(previous, here);
    std::swap(here, next);
  }
  if (row.du) cells.scatter(original);
  return value * scale;
}

// V of a row; its gradient is written where du, da, dc are given. A value that is not finite, or a range that
// overflows, makes the row NaN and touches no other.
template <typename T>
double row_value(const Row<T>& row, const Rules& rules) {
  if (row.count == 0) return row.fill_nan();
  T low, high;
  find_range(row.u, row.count, low, high);
  const double range = double(high) - double(low);
  if (!is_finite(range)) return row.fill_nan();
  if (row.du && row.shared_c) row.dc[0] = 0;
  int64_t k = 0;
  while (k < rules.count && range > rules.widest_range(k)) ++k;
  // The range has not seen every NaN: the sums do, but a NaN belongs to no cell.
  if (k == rules.count && !row.finite()) return row.fill_nan();
  const double value = k < rules.count ? one_cell(row, rules, k, T(low + (high - low) / 2))
                                       : many_cells(row, rules, rules.count - 1);
  return is_finite(value) || row.finite() ? value : row.fill_nan();
}

// V (rows,) of u, a (rows, count) and c (rows, c_count), c_count either 1 or count; gradients unless null.
template <typename T>
struct Rows {
  const T *u, *a, *c;
  int64_t count, c_count;
  T *value, *du, *da, *dc;

  void compute(int64_t m, const Rules& rules) const {
    const Row<T> row{u + m * count,
                     a + m * count,
                     c + m * c_count,
                     count,
                     /*shared_c=*/c_count != count,
                     du ? du + m * count : nullptr,
                     da ? da + m * count : nullptr,
                     dc ? dc + m * c_count : nullptr};
    value[m] = T(row_value(row, rules));
  }
};

}  // namespace slicestein
