// LD_PRELOAD library that emulates a processor of x86-64 level PROCESSOR_LEVEL (2 or 3) by hiding the vector extensions
// of higher levels from CPUID. Exits with code 77 if the processor or the kernel does not support trapping CPUID.
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace {

constexpr int skipped = 77;
int level = 4;

bool catch_cpuid(bool caught) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, caught ? 0L : 1L) == 0; }

void answer(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* const code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (code[0] != 0x0f || code[1] != 0xa2) {  // not the CPUID instruction
    std::signal(SIGSEGV, SIG_DFL);
    return;
  }
  const auto leaf = static_cast<unsigned>(registers[REG_RAX]);
  const auto part = static_cast<unsigned>(registers[REG_RCX]);
  unsigned a = 0, b = 0, c = 0, d = 0;
  catch_cpuid(false);
  __cpuid_count(leaf, part, a, b, c, d);
  catch_cpuid(true);
  if (leaf == 7 && part == 0) {
    b &= ~static_cast<unsigned>(bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL);
    if (level < 3) b &= ~static_cast<unsigned>(bit_AVX2);
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) void hide_vectors() {
  const char* const wanted = std::getenv("PROCESSOR_LEVEL");
  if (wanted == nullptr) return;
  level = std::atoi(wanted);
  struct sigaction action {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, nullptr) != 0 || !catch_cpuid(true)) _exit(skipped);
}

}  // namespace
