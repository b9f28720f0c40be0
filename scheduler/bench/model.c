/* model.c - `kiln bench engine`, `quality`, `coarse`, `teleport`, `judge` and `captions`: the
 * benches of libkiln_bench.so.
 *
 * That library (worker/bench/bench.h) has the engine in it.  It is opened for these alone:
 * loading LibTorch takes half a second and 85 MB, which no other bench shall have.
 */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/bench/bench.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/jobs/render.h"

#define LIBRARY "libkiln_bench.so"

int kiln_bench_with_model(struct kiln_cli *cli, int argc, char **argv)
{
    static char judge[] = "--judge", lists[] = "--lists";
    char programs[PATH_MAX];
    struct kiln_model_words words;
    struct kiln_error err;
    const bool is_engine = strcmp(argv[0], "engine") == 0; /* its --config is a model */
    void *library = dlopen(LIBRARY, RTLD_NOW);
    int (*run)(int, char **) = NULL;
    if (library)
        *(void **)&run = dlsym(library, "kiln_bench_model");
    if (!run) {
        kiln_warn(cli, "bench %s needs " LIBRARY ", which is built with LibTorch: %s", argv[0],
                  dlerror());
        return EX_UNAVAILABLE;
    }
    int status = kiln_model_words_begin(cli, argc, argv, is_engine, &words);
    if (status)
        return status;
    if (!is_engine && kiln_program_dir(programs, &err) == 0) {
        kiln_model_words_default(&words, judge,
                                 kiln_find_shipped(programs, "../pipeline/models/judge",
                                                   "../share/kiln/models/judge", "labels.json"));
        kiln_model_words_default(
            &words, lists,
            kiln_find_shipped(programs, "../tests/quality", "../share/kiln/quality", "held.jsonl"));
    }
    kiln_model_words_end(&words, cli);
    signal(SIGPIPE, SIG_DFL); /* the reader of the table may go */
    status = run(words.count - 1, words.at + 1);
    kiln_model_words_release(&words);
    return status;
}
