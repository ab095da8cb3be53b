// Clocks and command-line flags of the peers; no Arrow.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>

namespace peer {

inline int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct CpuTime {
  int64_t user_ns;
  int64_t system_ns;
};

inline CpuTime ProcessCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& t) { return t.tv_sec * 1'000'000'000 + t.tv_usec * 1'000; };
  return {ns(usage.ru_utime), ns(usage.ru_stime)};
}

// `--name value` pairs and bare `--switch`es; whatever is not in `known` is refused.
class Flags {
 public:
  // `known` maps a flag to its default; a switch defaults to "false".
  Flags(int argc, char** argv, std::map<std::string, std::string> known)
      : values_(std::move(known)) {
    for (int i = 1; i < argc; ++i) {
      const std::string name = argv[i];
      auto found = name.rfind("--", 0) == 0 ? values_.find(name.substr(2)) : values_.end();
      if (found == values_.end()) Refuse("unknown argument " + name);
      if (found->second == "false") {
        found->second = "true";
      } else if (++i < argc) {
        found->second = argv[i];
      } else {
        Refuse(name + " needs a value");
      }
    }
  }

  const std::string& Text(const std::string& name) const { return values_.at(name); }
  bool Set(const std::string& name) const { return Text(name) == "true"; }

  int64_t Count(const std::string& name, int64_t least = 1) const {
    char* end = nullptr;
    const int64_t value = std::strtoll(Text(name).c_str(), &end, 10);
    if (Text(name).empty() || *end != '\0' || value < least) {
      Refuse("--" + name + " must be a whole number of at least " + std::to_string(least));
    }
    return value;
  }

  [[noreturn]] void Refuse(const std::string& message) const {
    std::cerr << "error: " << message << "\nknown:";
    for (const auto& entry : values_) std::cerr << " --" << entry.first;
    std::cerr << std::endl;
    std::exit(2);
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace peer
