/* engine_options.c - the command line of `kiln bench engine`; see engine.h. */
#include <string.h>

#include "schemas/limits.h"
#include "worker/bench/engine.h"
#include "worker/engine/batch_steps.h"

#define TOKENS_USUAL 100

const char kiln_bench_engine_usage[] =
    "Usage: kiln bench engine [options]\n"
    "\n"
    "Times the engine on one device, stage by stage, and prints what share of the\n"
    "device's own ceiling a forward of the transformer reaches. ms of text, decode\n"
    "and forward are a picture's.\n"
    "\n"
    "  --config DIR           diffusers layout (the model of the settings, else the\n"
    "                         demo model)\n"
    "  --random-weights       make weights on the device: DIR needs only configs and\n"
    "                         a tokenizer\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  --sizes N,WxH,...      pixels (512,768,1024,1536,2048; on the CPU 256)\n"
    "  --batch N,...          pictures of a batch (1)\n"
    "  --dtype bf16,fp8,...   one or more of fp32, bf16, fp8, auto; each is compared\n"
    "                         with the first (auto)\n"
    "  --tokens N             of each prompt, with its template (100)\n"
    "  --steps N              of a whole picture (as kiln.json of the model says,\n"
    "                         else 8)\n"
    "  --coarse off,S+L,...   whole pictures exact, or coarse first: S steps at half\n"
    "                         the side, then L, with the time of the hand-over\n"
    "                         between them (off); from 1024 px also S+M+L: S at a\n"
    "                         quarter of the side, M at half\n"
    "  --skip N               whole pictures from a latent, N steps skipped (0)\n"
    "  --stages LIST          of forward,text,decode,image (all)\n"
    "  --repeat N --warmup N  runs of a stage that count, after some that do not (8,\n"
    "                         3)\n"
    "  --image-repeat N       the same for whole pictures, after one that does not\n"
    "                         (3)\n"
    "  --threads N            of the CPU (all)\n"
    "  --deterministic        times nothing: renders each batch, of prompts of\n"
    "                         several lengths, and each of its pictures alone; fails\n"
    "                         unless all bits are the same\n"
    "  --json                 one object on standard output\n"
    "\n"
    "Examples:\n"
    "  kiln bench engine --config scripts/bench/z-image-turbo --random-weights \\\n"
    "      --device cuda:0\n"
    "  kiln bench engine --sizes 256,512 --dtype fp32,bf16\n";

/* Names between commas, as a sum of enum kiln_stage; the last list given counts. */
static int take_stages(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    static const char *const names[] = {"forward", "text", "decode", "image"}; /* 1, 2, 4, 8 */
    int32_t *stages = option->to;
    *stages = 0;
    for (char *save = NULL, *name = strtok_r(value, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        int i = 0;
        while (i < 4 && strcmp(name, names[i]) != 0)
            i++;
        if (i == 4)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "--stages \"%s\": expected some of forward, text, decode, image",
                             name);
        *stages |= 1 << i;
    }
    return 0;
}

static void add_usual(struct kiln_bench_options *o)
{
    static const int32_t sides[] = {512, 768, 1024, 1536, 2048};
    if (!o->size_count && o->device < 0) {
        o->sizes[0].width = o->sizes[0].height = 256;
        o->size_count = 1;
    }
    for (size_t i = 0; !o->size_count && i < sizeof sides / sizeof *sides; i++)
        o->sizes[i].width = o->sizes[i].height = sides[i];
    if (!o->size_count)
        o->size_count = (int)(sizeof sides / sizeof *sides);
    if (!o->batch_count)
        o->batches[o->batch_count++] = 1;
    if (!o->dtype_count)
        o->dtypes[o->dtype_count++] = DIFFUSIONZ_AUTO;
    if (!o->mode_count)
        o->modes[o->mode_count++] = (struct kiln_mode){.kind = KILN_MODE_EXACT};
}

static int check(const struct kiln_bench_options *o, struct kiln_error *err)
{
    const int32_t steps = o->common.num_steps, skip = o->common.skip_steps;
    if (o->deterministic && o->json)
        return kiln_fail(err, KILN_BAD_INPUT, "--deterministic has no figures for --json");
    if (skip && (o->mode_count > 0 || o->deterministic))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--skip cannot be combined with --coarse or --deterministic");
    if (skip >= steps)
        return kiln_fail(err, KILN_BAD_INPUT, "--skip %d: the schedule has only %d steps", skip,
                         steps);
    return 0;
}

/* Each mode at each size, when all are known. */
static int check_modes(const struct kiln_bench_options *o, struct kiln_error *err)
{
    int code = 0;
    for (int m = 0; m < o->mode_count; m++)
        for (int i = 0; i < o->size_count && !code; i++) {
            const struct kiln_picture_size size = {(uint32_t)o->sizes[i].width,
                                                   (uint32_t)o->sizes[i].height};
            code = kiln_coarse_check("--coarse", &o->modes[m], size, (uint32_t)o->common.num_steps,
                                     err);
        }
    return code;
}

int kiln_bench_options_read(int argc, char **argv, struct kiln_bench_options *ret,
                            struct kiln_error *err)
{
    struct kiln_bench_options o = {.device = -1,
                                   .common = {.tokens = TOKENS_USUAL,
                                              .warmups = 3,
                                              .repeats = 8,
                                              .image_repeats = 3,
                                              .stages = KILN_STAGES_ALL}};
    const int most = KILN_BENCH_LIST_MAX, runs = KILN_STAGE_RUNS_MAX;
    const struct kiln_verb_option table[] = {
        {"config", kiln_take_text, .to = &o.model},
        {"model", kiln_take_text, .to = &o.model},
        {"random-weights", NULL, .to = &o.random_weights},
        {"device", kiln_take_device, .to = &o.device},
        {"sizes", kiln_take_size, .to = o.sizes, 0, 0, &o.size_count, sizeof *o.sizes, most},
        {"batch", kiln_take_small, .to = o.batches, 1, KILN_ASSIGN_MAX, &o.batch_count,
         sizeof *o.batches, most},
        {"dtype", kiln_take_dtype, .to = o.dtypes, 0, 0, &o.dtype_count, sizeof *o.dtypes, most},
        {"tokens", kiln_take_small, .to = &o.common.tokens, KILN_STAGE_TOKENS_MIN, KILN_TOKENS_MAX},
        {"steps", kiln_take_small, .to = &o.common.num_steps, KILN_STEPS_MIN, KILN_STEPS_MAX},
        {"coarse", kiln_take_coarse, .to = o.modes, 0, 0, &o.mode_count, sizeof *o.modes, most},
        {"skip", kiln_take_small, .to = &o.common.skip_steps, 0, KILN_STEPS_MAX - 1},
        {"stages", take_stages, .to = &o.common.stages},
        {"repeat", kiln_take_small, .to = &o.common.repeats, 1, runs},
        {"warmup", kiln_take_small, .to = &o.common.warmups, 0, runs},
        {"image-repeat", kiln_take_small, .to = &o.common.image_repeats, 1, runs},
        {"threads", kiln_take_small, .to = &o.threads, 0, KILN_THREADS_MAX},
        {"deterministic", NULL, .to = &o.deterministic},
        {"json", NULL, .to = &o.json},
        {0},
    };
    int code = kiln_verb_options("bench engine", argc, argv, table, &o.help, err);
    if (!o.common.num_steps)
        o.common.num_steps = kiln_batch_steps_usual(o.model);
    if (!code && !o.help)
        code = check(&o, err);
    add_usual(&o);
    if (!code && !o.help)
        code = check_modes(&o, err);
    if (code)
        return code;
    *ret = o;
    return 0;
}
