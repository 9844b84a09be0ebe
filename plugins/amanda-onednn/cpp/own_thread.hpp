// Functions that prepare primitives run in threads of their own.
#pragma once

#include <future>

namespace amanda {

// Runs a function in a thread of its own; what it throws is thrown again. Where oneDNN cannot
// generate the code of a primitive, the error stays with the thread (3.2 never clears it), and
// most primitives that this thread makes afterwards fail, too.
template <typename Function>
auto in_own_thread(Function function) {
  return std::async(std::launch::async, function).get();
}

}  // namespace amanda
