// Threads of OpenMP that oneDNN and the loops beside it use.
#pragma once

#include <future>

#include <omp.h>

namespace amanda {

// While this exists, oneDNN and OpenMP use the calling thread alone, if `is_needed`.
class OneThread {
 public:
  explicit OneThread(bool is_needed = true) : before_(is_needed ? omp_get_max_threads() : 1) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

 private:
  const int before_;
};

// Runs a function in a thread of its own, with as many threads of OpenMP as the caller has;
// what it throws is thrown again. Where oneDNN cannot generate the code of a primitive, the
// error stays with the thread (3.2 never clears it), and most primitives that this thread
// makes afterwards fail, too.
template <typename Function>
auto in_own_thread(Function function) {
  const int count = omp_get_max_threads();
  const auto run = [&] {
    omp_set_num_threads(count);
    return function();
  };
  return std::async(std::launch::async, run).get();
}

}  // namespace amanda
