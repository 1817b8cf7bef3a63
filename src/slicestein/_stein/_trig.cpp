// The extension module: the kernels of the headers beside this file, as XLA call targets and as functions of Python
// buffers.

#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_trig_base.h"
#include "_trig_blocks.h"
#include "_trig_pairs.h"
#include "_trig_rows.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using slicestein::BlockSums;
using slicestein::Rows;
using slicestein::Rules;

// ---- XLA ------------------------------------------------------------------------------------------------------------

// Runs task(m) for every row on the threads of XLA.
template <typename Task>
ffi::Error for_rows(ffi::ThreadPool& pool, int64_t rows, Task task) {
  try {
    slicestein::parallel_for(
        pool.num_threads() - 1, [&pool](std::function<void()> work) { pool.Schedule(std::move(work)); }, rows, task);
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "slicestein: out of memory");
  } catch (const std::exception& error) {
    return ffi::Error::Internal(std::string("slicestein: ") + error.what());
  }
  return ffi::Error::Success();
}

// u and a (..., count), c (..., 1) or (..., count), one result per row.
template <typename Buffer>
bool are_rows(const Buffer& u, const Buffer& a, const Buffer& c, int64_t rows) {
  if (u.dimensions().size() == 0 || c.dimensions().size() == 0) return false;
  const size_t count = u.dimensions().back(), c_count = c.dimensions().back();
  return u.element_count() == rows * count && a.element_count() == rows * count &&
         c.element_count() == rows * c_count && (c_count == 1 || c_count == count);
}

bool are_rules(ffi::Span<const double> spacing, ffi::Span<const int64_t> length, ffi::Span<const double> weights) {
  if (spacing.size() == 0 || length.size() != spacing.size() || weights.size() % spacing.size()) return false;
  const int64_t stride = weights.size() / spacing.size();
  return std::all_of(length.begin(), length.end(), [=](int64_t n) { return n > 0 && n <= stride; });
}

template <typename T>
ffi::Error all_rows(ffi::ThreadPool& pool, int64_t rows, const Rows<T>& arrays, ffi::Span<const double> spacing,
                    ffi::Span<const int64_t> length, ffi::Span<const double> weights, double reach) {
  if (!are_rules(spacing, length, weights)) return ffi::Error::InvalidArgument("slicestein: rules do not fit");
  const int64_t num_rules = spacing.size(), stride = weights.size() / num_rules;
  const Rules rules{spacing.begin(), length.begin(), weights.begin(), num_rules, stride, reach};
  return for_rows(pool, rows, [=](int64_t m) { arrays.compute(m, rules); });
}

ffi::Error wrong_shapes() {
  return ffi::Error::InvalidArgument("slicestein: u and a must be (..., n), c (..., n) or (..., 1)");
}

template <ffi::DataType kType>
ffi::Error value_impl(ffi::ThreadPool pool, ffi::Buffer<kType> u, ffi::Buffer<kType> a,
                      ffi::Buffer<kType> c, ffi::ResultBuffer<kType> value,
                      ffi::Span<const double> spacing, ffi::Span<const int64_t> length,
                      ffi::Span<const double> weights, double reach) {
  const int64_t rows = value->element_count();
  if (!are_rows(u, a, c, rows)) return wrong_shapes();
  const Rows<ffi::NativeType<kType>> arrays{u.typed_data(), a.typed_data(), c.typed_data(), u.dimensions().back(),
                                            c.dimensions().back(), value->typed_data(), nullptr, nullptr, nullptr};
  return all_rows(pool, rows, arrays, spacing, length, weights, reach);
}

template <ffi::DataType kType>
ffi::Error gradient_impl(ffi::ThreadPool pool, ffi::Buffer<kType> u, ffi::Buffer<kType> a,
                         ffi::Buffer<kType> c, ffi::ResultBuffer<kType> value,
                         ffi::ResultBuffer<kType> du, ffi::ResultBuffer<kType> da,
                         ffi::ResultBuffer<kType> dc, ffi::Span<const double> spacing,
                         ffi::Span<const int64_t> length, ffi::Span<const double> weights, double reach) {
  const int64_t rows = value->element_count();
  if (!are_rows(u, a, c, rows) || !are_rows(*du, *da, *dc, rows) || dc->element_count() != c.element_count())
    return wrong_shapes();
  const Rows<ffi::NativeType<kType>> arrays{u.typed_data(), a.typed_data(), c.typed_data(), u.dimensions().back(),
                                            c.dimensions().back(), value->typed_data(), du->typed_data(),
                                            da->typed_data(), dc->typed_data()};
  return all_rows(pool, rows, arrays, spacing, length, weights, reach);
}

template <ffi::DataType kType>
ffi::Error median_impl(ffi::ThreadPool pool, ffi::Buffer<kType> t, ffi::ResultBuffer<kType> median) {
  using T = ffi::NativeType<kType>;
  const int64_t count = t.dimensions().back();
  const T* rows = t.typed_data();
  T* out = median->typed_data();
  return for_rows(pool, median->element_count(), [=](int64_t m) {
    std::vector<T> row(rows + m * count, rows + (m + 1) * count);
    out[m] = T(slicestein::median_gap(row.data(), count));
  });
}

template <ffi::DataType kType>
ffi::Error forces_impl(ffi::ThreadPool pool, ffi::Buffer<kType> u, ffi::Buffer<kType> a, ffi::Buffer<kType> c,
                       ffi::ResultBuffer<kType> value, ffi::ResultBuffer<kType> pull,
                       ffi::ResultBuffer<kType> push) {
  using T = ffi::NativeType<kType>;
  const int64_t rows = value->element_count();
  if (!are_rows(u, a, c, rows) || !are_rows(*pull, *push, *push, rows)) return wrong_shapes();
  const int64_t count = u.dimensions().back(), c_count = c.dimensions().back();
  const T *us = u.typed_data(), *as = a.typed_data(), *cs = c.typed_data();
  T *values = value->typed_data(), *pulls = pull->typed_data(), *pushes = push->typed_data();
  return for_rows(pool, rows, [=](int64_t m) {
    const int64_t row = m * count;
    values[m] = T(slicestein::pair_forces(us + row, as + row, cs + m * c_count, count, c_count, pulls + row,
                                          pushes + row));
  });
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

// ---- Python ---------------------------------------------------------------------------------------------------------

// A contiguous array that Python lends for the time of a call.
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  ~Array() {
    if (view_.obj) PyBuffer_Release(&view_);
  }
  bool borrow(PyObject* object, bool writable = false) {
    return PyObject_GetBuffer(object, &view_,
                              PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) == 0;
  }
  bool holds(const char* codes, int64_t size) const {
    return view_.itemsize == size && view_.format && std::strlen(view_.format) == 1 &&
           std::strchr(codes, view_.format[0]);
  }
  template <typename T>
  bool holds() const {
    return holds(sizeof(T) == 8 ? "d" : "f", sizeof(T));
  }
  int64_t size() const { return view_.len / view_.itemsize; }
  int ndim() const { return view_.ndim; }
  int64_t shape(int axis) const { return view_.shape[axis]; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(view_.buf);
  }

 private:
  Py_buffer view_{};
};

// Helpers that are joined when the work is done.
struct Threads {
  std::vector<std::thread> threads;
  explicit Threads(int64_t count) { threads.reserve(count); }
  ~Threads() {
    for (auto& thread : threads) thread.join();
  }
  auto spawn() {
    return [this](auto work) { threads.emplace_back(std::move(work)); };
  }
};

PyObject* misfit() {
  PyErr_SetString(PyExc_ValueError, "types or shapes of the arrays do not fit each other");
  return nullptr;
}

// Runs compute() without the lock of the interpreter.
template <typename Compute>
PyObject* unlocked(Compute compute) {
  std::exception_ptr error;
  Py_BEGIN_ALLOW_THREADS;
  try {
    compute();
  } catch (...) {
    error = std::current_exception();
  }
  Py_END_ALLOW_THREADS;
  if (error) return PyErr_NoMemory();  // all that the kernels do besides arithmetic is to allocate
  Py_RETURN_NONE;
}

bool are_ends(const Array& ends, int64_t rows) {
  const int64_t *begin = ends.data<int64_t>(), *end = begin + ends.size();
  return begin == end ? rows == 0 : std::is_sorted(begin, end) && *begin >= 0 && end[-1] == rows;
}

template <typename T>
PyObject* sum_blocks(const Array& t, const Array& a, const Array& c, const Array& ends, const Array& roots,
                     const Array& centre, const Array& bulk, const Array& out, double spacing, double tail,
                     int64_t num_threads) {
  const int64_t slices = t.shape(0), rows = t.shape(1), c_count = c.shape(1);
  for (const Array* array : {&a, &c, &centre, &bulk, &out})
    if (!array->holds<T>()) return misfit();
  if (!roots.holds<double>() || !ends.holds("lq", 8) || !are_ends(ends, rows)) return misfit();
  if (a.size() != t.size() || c.shape(0) != slices || (c_count != 1 && c_count != rows) || centre.size() != slices ||
      bulk.size() != slices || out.size() != ends.size() * slices * 2 * roots.size())
    return misfit();
  const BlockSums<T> job{t.data<T>(),           a.data<T>(), c.data<T>(),          slices,         rows,
                         c_count,               ends.data<int64_t>(), ends.size(), spacing,        roots.data<double>(),
                         roots.size(),          centre.data<T>(),     bulk.data<T>(), T(tail),     out.data<T>()};
  return unlocked([&] {
    Threads threads(num_threads);
    slicestein::block_sums(job, num_threads - 1, threads.spawn());
  });
}

// block_sums(t, a, c, ends, roots, centre, bulk, out, spacing, tail, num_threads)
PyObject* block_sums(PyObject*, PyObject* args) {
  PyObject* objects[8];
  double spacing, tail;
  Py_ssize_t num_threads;
  if (!PyArg_ParseTuple(args, "OOOOOOOOddn", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                        &objects[5], &objects[6], &objects[7], &spacing, &tail, &num_threads))
    return nullptr;
  Array arrays[8];
  for (int i = 0; i < 8; ++i)
    if (!arrays[i].borrow(objects[i], /*writable=*/i == 7)) return nullptr;
  const auto& [t, a, c, ends, roots, centre, bulk, out] = arrays;
  if (t.ndim() != 2 || c.ndim() != 2) return misfit();
  return (t.holds<double>() ? sum_blocks<double> : sum_blocks<float>)(t, a, c, ends, roots, centre, bulk, out, spacing,
                                                                      tail, num_threads);
}

template <typename T>
PyObject* medians(const Array& t, const Array& out, int64_t num_threads) {
  if (!t.holds<T>() || !out.holds<T>() || out.size() != t.shape(0)) return misfit();
  const int64_t rows = t.shape(0), count = t.shape(1);
  T *values = t.data<T>(), *median = out.data<T>();
  return unlocked([=] {
    Threads threads(num_threads);
    slicestein::parallel_for(num_threads - 1, threads.spawn(), rows, [=](int64_t m) {
      median[m] = T(slicestein::median_gap(values + m * count, count));
    });
  });
}

// median_gap(t, out, num_threads); sorts the rows of t
PyObject* median_gap(PyObject*, PyObject* args) {
  PyObject *t_object, *out_object;
  Py_ssize_t num_threads;
  if (!PyArg_ParseTuple(args, "OOn", &t_object, &out_object, &num_threads)) return nullptr;
  Array t, out;
  if (!t.borrow(t_object, /*writable=*/true) || !out.borrow(out_object, /*writable=*/true)) return nullptr;
  if (t.ndim() != 2) return misfit();
  return (t.holds<double>() ? medians<double> : medians<float>)(t, out, num_threads);
}

int add_target(PyObject* module, const char* name, XLA_FFI_Handler* handler) {
  return PyModule_AddObject(module, name,
                            PyCapsule_New(reinterpret_cast<void*>(handler), nullptr, nullptr));
}
PyMethodDef methods[] = {{"block_sums", block_sums, METH_VARARGS, nullptr},
                         {"median_gap", median_gap, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_trig", nullptr, -1, methods};

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
