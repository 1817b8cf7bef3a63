// Random calls of the kernels under the sanitizers, each compared with the definition: fuzz_trig [calls] [seed]
//
// Rows of no, one, some and many samples; spread out, close together, tied, in clusters, of all scales; numbers that
// are not finite, denormal or huge. A row with a number that is not finite must be NaN, and every other must be right
// up to rounding. No call may take a second.

#include <chrono>
#include <ctime>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "_trig_blocks.h"
#include "_trig_pairs.h"
#include "_trig_rows.h"
#include "reference.h"

namespace {

std::mt19937_64 engine;

double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine); }
double normal() { return std::normal_distribution<double>()(engine); }
int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
bool chance(double probability) { return uniform(0, 1) < probability; }
double sign() { return chance(0.5) ? 1 : -1; }

struct Tally {
  int64_t calls = 0, nan_rows = 0, numbers = 0;
  Real largest = 0;  // difference relative to the size of the terms
  double slowest = 0;
};
std::map<std::string, Tally> tallies;

[[noreturn]] void fail(const std::string& kind, const char* what, Real got, Real wanted, Real size) {
  std::printf("FAILED %s: %s is %.9Lg, should be %.9Lg, terms of size %.3Lg\n", kind.c_str(), what, got, wanted, size);
  std::exit(1);
}

// What a kernel may be off by, relative to the terms of its sums: a rounding of angles up to J pi (J about 20) and of
// their squares; for the trapezoid rule also the part of the spectrum that it leaves out.
template <typename T>
Real tolerance(bool trapezoid) {
  if (sizeof(T) == 4) return 2e-5L;
  return trapezoid ? 2e-9L : 2e-12L;
}

template <typename T>
void compare(const std::string& kind, const char* what, T got, Sum wanted, Real extra_size, Real tolerance) {
  const Real size = wanted.size + extra_size;
  if (size > std::numeric_limits<T>::max() / 1024) return;  // infinite in this type, or a step before it
  const Real slack = 4096 * Real(std::numeric_limits<T>::denorm_min());
  const Real difference = std::fabs(Real(got) - wanted.value);
  Tally& tally = tallies[kind];
  ++tally.numbers;
  if (!(difference <= tolerance * size + slack)) fail(kind, what, got, wanted.value, size);
  if (difference > slack) tally.largest = std::max(tally.largest, difference / size);
}

template <typename T>
void expect_nan(const std::string& kind, const char* what, const T* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isnan(values[i])) fail(kind, what, values[i], NAN, 0);
}

template <typename Call>
void timed(const std::string& kind, Call call) {
  const auto begin = std::clock();
  call();
  const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  Tally& tally = tallies[kind];
  ++tally.calls;
  tally.slowest = std::max(tally.slowest, seconds);
  if (seconds > 1) fail(kind, "the time of a call", seconds, 1, 1);
}

// ---- random rows ----------------------------------------------------------------------------------------------------

double any_scale() { return std::pow(10, uniform(-30, 30)); }

template <typename T>
std::vector<T> positions(int64_t n) {
  const int64_t kind = integer(0, 6);
  const double scale = chance(0.3) ? any_scale() : std::pow(10, uniform(-1, 2.5)), centre = sign() * any_scale();
  std::vector<T> u(n);
  for (T& x : u) {
    if (kind <= 1) x = T(scale * normal());
    if (kind == 2) x = T(scale * std::round(2 * normal()));                               // ties
    if (kind == 3) x = T((chance(0.5) ? centre : integer(-3, 3) * 20.0) + scale * normal());  // clusters
    if (kind == 4) x = T(sign() * any_scale());
    if (kind == 5) x = T(scale);
    if (kind == 6) x = T(integer(-9, 9)) * std::numeric_limits<T>::denorm_min();
  }
  if (n && chance(0.05)) u[integer(0, n - 1)] = T(sign() * 0.9) * std::numeric_limits<T>::max();
  return u;
}

template <typename T>
std::vector<T> weights(int64_t n) {
  const int64_t kind = integer(0, 5);
  const double scale = chance(0.2) ? any_scale() : 1;
  std::vector<T> w(n);
  for (T& x : w) {
    x = T(scale * normal());
    if (kind == 3) x = T(sign() * any_scale());
    if (kind == 4) x = T(integer(0, 1));
    if (kind == 5) x = T(integer(-9, 9)) * std::numeric_limits<T>::denorm_min();
  }
  return w;
}

template <typename T>
void spoil(std::vector<T>& row) {
  const T bad[] = {T(NAN), T(INFINITY), T(-INFINITY)};
  if (!row.empty()) row[integer(0, row.size() - 1)] = bad[integer(0, 2)];
}

template <typename T>
bool finite(const T* x, int64_t n) {
  return std::all_of(x, x + n, [](T value) { return std::isfinite(value); });
}

int64_t any_count() {
  if (chance(0.001)) return 300;
  return chance(0.1) ? integer(0, 1) : integer(2, chance(0.2) ? 40 : 16);
}

template <typename T>
struct Data {
  int64_t rows = integer(0, 3), n = any_count();
  bool shared_c = chance(0.5);
  int64_t c_count = shared_c ? 1 : n;
  std::vector<T> u, a, c;
  Data() {
    for (int64_t m = 0; m < rows; ++m) {
      std::vector<T> parts[] = {positions<T>(n), weights<T>(n), weights<T>(c_count)};
      if (chance(0.1)) spoil(parts[integer(0, 2)]);
      u.insert(u.end(), parts[0].begin(), parts[0].end());
      a.insert(a.end(), parts[1].begin(), parts[1].end());
      c.insert(c.end(), parts[2].begin(), parts[2].end());
    }
  }
  bool row_finite(int64_t m) const {
    return finite(&u[m * n], n) && finite(&a[m * n], n) && finite(&c[m * c_count], c_count);
  }
  template <typename Range>
  bool range_finite(int64_t m) const {
    const auto [low, high] = std::minmax_element(&u[m * n], &u[m * n] + n);
    return std::isfinite(Range(*high) - Range(*low));
  }
};

// ---- the kernels ----------------------------------------------------------------------------------------------------

// The trapezoid rules for the Gaussian kernel, as fourier.quadrature makes them.
template <typename T>
struct GaussianRules {
  std::vector<double> spacing, weights;
  std::vector<int64_t> length;
  double reach;
  GaussianRules() {
    const bool single = sizeof(T) == 4;
    const double cutoff = std::sqrt(-2 * std::log(single ? 1e-6 : 1e-10));
    reach = std::sqrt(-2 * std::log(single ? 1e-8 : 1e-14));
    for (double period : {1.5, 1.75, 2.0, 2.25, 2.5, 3.0}) {
      spacing.push_back(slicestein::kTwoPi / (period * reach));
      length.push_back(static_cast<int64_t>(std::ceil(cutoff / spacing.back())) + 1);
    }
    const int64_t stride = *std::max_element(length.begin(), length.end());
    for (size_t k = 0; k < spacing.size(); ++k)
      for (int64_t j = 0; j < stride; ++j) {
        const double w = j * spacing[k], density = std::exp(-0.5 * w * w) / std::sqrt(slicestein::kTwoPi);
        weights.push_back(j < length[k] ? (j ? 2 : 1) * spacing[k] * density : 0.0);
      }
  }
  slicestein::Rules view() const {
    const int64_t count = spacing.size(), stride = weights.size() / count;
    return {spacing.data(), length.data(), weights.data(), count, stride, reach};
  }
};

// Sizes of what is added before a sum over pairs can cancel: mean absolute values of the neighbours.
template <typename T>
struct Sizes {
  Real a = 0, c = 0;
  Sizes(const T* as, const T* cs, int64_t n, int64_t c_count) {
    for (int64_t i = 0; i < n; ++i) a += std::fabs(Real(as[i])) / n;
    for (int64_t i = 0; i < c_count; ++i) c += std::fabs(Real(cs[i])) / c_count;
  }
};

template <typename T>
void fuzz_rows(const std::string& type) {
  static const GaussianRules<T> rules;
  const std::string kind = "value, gradient " + type;
  const Data<T> data;
  std::vector<T> value(data.rows, 7), alone(data.rows, 7), du(data.u.size(), 7), da(du), dc(data.c.size(), 7);
  const slicestein::Rows<T> call{data.u.data(), data.a.data(), data.c.data(), data.n,   data.c_count,
                                 value.data(),  du.data(),     da.data(),     dc.data()};
  slicestein::Rows<T> only_value = call;
  only_value.value = alone.data(), only_value.du = only_value.da = only_value.dc = nullptr;
  timed(kind, [&] {
    for (int64_t m = 0; m < data.rows; ++m) call.compute(m, rules.view()), only_value.compute(m, rules.view());
  });
  for (int64_t m = 0; m < data.rows; ++m) {
    const int64_t at = m * data.n, at_c = m * data.c_count;
    if (data.n == 0 || !data.row_finite(m) || !data.template range_finite<double>(m)) {
      ++tallies[kind].nan_rows;
      expect_nan(kind, "V", &value[m], 1), expect_nan(kind, "V alone", &alone[m], 1);
      expect_nan(kind, "du", du.data() + at, data.n), expect_nan(kind, "da", da.data() + at, data.n);
      expect_nan(kind, "dc", dc.data() + at_c, data.c_count);
      continue;
    }
    const Expected wanted =
        expected_row(&data.u[at], &data.a[at], &data.c[at_c], data.n, data.shared_c && data.n > 1);
    const Sizes<T> size(&data.a[at], &data.c[at_c], data.n, data.c_count);
    const Real both = size.a + size.c, good = tolerance<T>(true);
    if (value[m] != alone[m] && std::isfinite(value[m])) fail(kind, "V alone", alone[m], value[m], 0);
    compare(kind, "V", value[m], wanted.value, both * both, good);
    for (int64_t i = 0; i < data.n; ++i) {
      const Real own = std::fabs(Real(data.a[at + i])) + std::fabs(Real(data.c[at_c + (data.c_count == 1 ? 0 : i)]));
      compare(kind, "du", du[at + i], wanted.du[i], 2 * own * both / data.n, good);
      compare(kind, "da", da[at + i], wanted.da[i], 2 * both / data.n, good);
    }
    for (int64_t i = 0; i < data.c_count; ++i)
      compare(kind, "dc", dc[at_c + i], wanted.dc[i], 2 * both / data.c_count, good);
  }
}

template <typename T>
void fuzz_forces(const std::string& type) {
  const std::string kind = "forces " + type;
  const Data<T> data;
  std::vector<T> value(data.rows, 7), pull(data.u.size(), 7), push(pull);
  timed(kind, [&] {
    for (int64_t m = 0; m < data.rows; ++m) {
      const int64_t at = m * data.n;
      value[m] = T(slicestein::pair_forces(data.u.data() + at, data.a.data() + at, data.c.data() + m * data.c_count,
                                           data.n, data.c_count, pull.data() + at, push.data() + at));
    }
  });
  for (int64_t m = 0; m < data.rows; ++m) {
    const int64_t at = m * data.n, at_c = m * data.c_count;
    if (data.n == 0 || !data.row_finite(m) || !data.template range_finite<T>(m)) {
      ++tallies[kind].nan_rows;
      expect_nan(kind, "V", &value[m], 1);
      expect_nan(kind, "pull", pull.data() + at, data.n), expect_nan(kind, "push", push.data() + at, data.n);
      continue;
    }
    const Expected wanted =
        expected_row(&data.u[at], &data.a[at], &data.c[at_c], data.n, data.shared_c && data.n > 1);
    const Sizes<T> size(&data.a[at], &data.c[at_c], data.n, data.c_count);
    const Real good = tolerance<T>(false), both = size.a + size.c;
    const Real zero = 64 * Real(std::numeric_limits<T>::min()) / good;  // a kernel below the smallest number is none
    compare(kind, "V", value[m], wanted.value, zero * both * both, good);
    for (int64_t i = 0; i < data.n; ++i) {
      compare(kind, "pull", pull[at + i], wanted.pull[i], zero * both, good);
      compare(kind, "push", push[at + i], wanted.push[i], zero * both, good);
    }
  }
}

template <typename T>
void fuzz_median(const std::string& type) {
  const std::string kind = "median " + type;
  std::vector<T> t = positions<T>(any_count());
  if (chance(0.1)) spoil(t);
  std::vector<T> sorted = t;
  double got = 0;
  timed(kind, [&] { got = slicestein::median_gap(sorted.data(), sorted.size()); });
  T range = 0;
  if (finite(t.data(), t.size()) && !t.empty())
    range = *std::max_element(t.begin(), t.end()) - *std::min_element(t.begin(), t.end());
  if (t.size() < 2 || !finite(t.data(), t.size()) || !std::isfinite(range)) {
    ++tallies[kind].nan_rows;
    expect_nan(kind, "the median", &got, 1);
    return;
  }
  const Real wanted = expected_median(t);
  ++tallies[kind].numbers;
  const Real rounding = wanted * std::numeric_limits<double>::epsilon() + std::numeric_limits<double>::denorm_min();
  if (std::fabs(got - wanted) > rounding) fail(kind, "the median", got, wanted, 0);
}

template <typename T>
void fuzz_blocks(const std::string& type) {
  const std::string kind = "block sums " + type;
  const Data<T> data;
  const int64_t length = integer(1, 20), two_j = 2 * length;
  const T tail = T(std::pow(10, uniform(-2, 2)));
  std::vector<T> centre = weights<T>(data.rows), bulk(data.rows);
  for (T& x : bulk) x = T(std::pow(10, uniform(-2, 2)));
  const double widest = data.rows ? *std::max_element(bulk.begin(), bulk.end()) : 1;
  const double spacing = uniform(0.1, 1) * 3.14159 / (widest + tail);
  std::vector<double> roots(length);
  for (double& root : roots) root = uniform(0, 2);
  std::vector<int64_t> ends;
  const int64_t typical = chance(0.5) ? 1 : integer(0, 60);
  for (int64_t end = 0; end < data.n; ends.push_back(end))
    end = std::min(data.n, end + (typical == 1 ? 1 : integer(0, typical + 1)));
  if (ends.empty()) ends.push_back(0);
  std::vector<T> out(ends.size() * data.rows * two_j, 7);
  const slicestein::BlockSums<T> job{data.u.data(), data.a.data(), data.c.data(), data.rows,
                                     data.n,        data.c_count,  ends.data(),   int64_t(ends.size()),
                                     spacing,       roots.data(),  length,        centre.data(),
                                     bulk.data(),   tail,          out.data()};
  timed(kind, [&] {
    std::vector<std::thread> threads;
    threads.reserve(1);
    slicestein::block_sums(job, chance(0.02) ? 1 : 0, [&](auto work) { threads.emplace_back(work); });
    for (auto& thread : threads) thread.join();
  });
  for (int64_t m = 0; m < data.rows; ++m)
    for (size_t block = 0; block < ends.size(); ++block) {
      const T* got = out.data() + (block * data.rows + m) * two_j;
      const int64_t begin = block ? ends[block - 1] : 0;
      const T* c = data.c.data() + m * data.c_count;
      bool good = begin == ends[block] || data.c_count != 1 || finite(c, 1);
      for (int64_t i = begin; i < ends[block]; ++i)
        good = good && std::isfinite(T(data.u[m * data.n + i] - centre[m])) && std::isfinite(data.a[m * data.n + i]) &&
               std::isfinite(c[data.c_count == 1 ? 0 : i]);
      if (!good) {
        ++tallies[kind].nan_rows;
        expect_nan(kind, "a sum", got, two_j);
        continue;
      }
      Real sum_c = 0;
      for (int64_t i = begin; i < ends[block]; ++i) sum_c += std::fabs(Real(c[data.c_count == 1 ? 0 : i]));
      for (int64_t j = 0; j < length; ++j) {
        Sum real, imag;
        for (int64_t i = begin; i < ends[block]; ++i)
          add_feature(T(data.u[m * data.n + i] - centre[m]), data.a[m * data.n + i], c[data.c_count == 1 ? 0 : i],
                      bulk[m], tail, j * spacing, roots[j], real, imag);
        const Real far = 1e-48L * roots[j] * j * spacing * sum_c;  // a slope of 1e-54 or less
        compare(kind, "a real part", got[j], real, far, tolerance<T>(false));
        compare(kind, "an imaginary part", got[length + j], imag, far, tolerance<T>(false));
      }
    }
}

template <typename T>
void one_call(const std::string& type) {
  switch (integer(0, 3)) {
    case 0: return fuzz_rows<T>(type);
    case 1: return fuzz_forces<T>(type);
    case 2: return fuzz_median<T>(type);
    default: return fuzz_blocks<T>(type);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t calls = argc > 1 ? std::atoll(argv[1]) : 1000000;
  const auto begin = std::chrono::steady_clock::now();
  engine.seed(argc > 2 ? std::atoll(argv[2]) : 0);
  for (int64_t call = 0; call < calls; ++call) chance(0.5) ? one_call<float>("float32") : one_call<double>("float64");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  double slowest = 0;
  int64_t numbers = 0;
  for (const auto& [kind, tally] : tallies) {
    std::printf("%-24s %7lld calls  %8lld numbers  %6lld rows NaN  largest difference %.1Le  slowest call %.4f s\n",
                kind.c_str(), (long long)tally.calls, (long long)tally.numbers, (long long)tally.nan_rows,
                tally.largest, tally.slowest);
    slowest = std::max(slowest, tally.slowest), numbers += tally.numbers;
  }
  std::printf("%lld calls, %lld numbers as they should be, slowest call %.4f s, %.0f s in all\n", (long long)calls,
              (long long)numbers, slowest, seconds.count());
}
