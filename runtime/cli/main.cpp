// The program gdn.
#include <cstdio>
#include <exception>
#include <new>

#include "command.h"
#include "console.h"

namespace {

constexpr const char *kFooter =
    "Exit codes: 0 ok, 1 failure, 2 usage, 3 no such target or device, 4 verification failed, 5 interrupted.\n"
    "Results go to stdout; progress and errors to stderr. Colour and progress appear on terminals only; NO_COLOR turns colour off.\n"
    "Environment: GDN_TARGET and GDN_TUNED_DIR as for the library; GDN_GENERATOR for `gdn kernels --emit`. Threads come from --threads.\n\n"
    "Examples:\n"
    "  gdn demo                                     two layers, then the operator, over a real text\n"
    "  gdn info                                     this machine and what the library does on it\n"
    "  gdn verify                                   every variant, dtype and target against double precision\n"
    "  gdn bench chunk --variant gdn2 --json        prefill speed against this core's peak\n"
    "  gdn explain --variant kda --tokens 4096      which kernels run, and why";

}  // namespace

int main(int argc, char **argv) {
    using namespace gdn::cli;
    CLI::App app("gdn: Gated Delta Networks, compiled ahead of time");
    app.name("gdn");
    app.footer(kFooter);
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string("gdn ") + gdn_version());
    app.get_formatter()->column_width(34);
    add_info(app);
    add_kernels(app);
    add_explain(app);
    add_verify(app);
    add_bench(app);
    add_demo(app);
#ifdef GDN_HAS_LAYER
    add_init(app);
    add_convert(app);
    add_run(app);
#endif
#ifdef GDN_HAS_TUNE
    add_tune(app);
#endif

    catch_interrupts();
    try {
        app.parse(argc, argv);  // runs the subcommand's callback
    } catch (const CLI::Success &success) {
        app.exit(success);
        return kExitOk;
    } catch (const CLI::ParseError &error) {
        app.exit(error);
        return kExitUsage;
    } catch (const Failure &failure) {
        std::fflush(stdout);
        std::fprintf(stderr, "gdn: %s\n", failure.what());
        return failure.code();
    } catch (const std::bad_alloc &) {
        std::fprintf(stderr, "gdn: out of memory\n");
        return kExitFailure;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gdn: %s\n", error.what());
        return kExitFailure;
    }
    if (std::fflush(stdout) != 0) {
        std::fprintf(stderr, "gdn: cannot write the output\n");
        return kExitFailure;
    }
    return kExitOk;
}
