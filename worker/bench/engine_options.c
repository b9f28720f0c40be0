/* engine_options.c - the command line of `kiln bench engine`; see engine.h. */
#include <getopt.h>
#include <string.h>

#include "schemas/limits.h"
#include "worker/bench/engine.h"
#include "worker/bench/options.h"
#include "worker/engine/renderer.h"
#include "worker/verbs/verbs.h"

#define TOKENS_USUAL 100

const char kiln_bench_engine_usage[] =
    "Usage: kiln bench engine [options]\n"
    "\n"
    "Times the engine on one device, stage by stage, and prints what share of the device's own\n"
    "ceiling a forward of the transformer reaches.  ms of text, decode and forward are a "
    "picture's.\n"
    "\n"
    "  --config DIR           diffusers layout (the model of the settings, else the demo model)\n"
    "  --random-weights       draw weights on the device: DIR needs configs and a tokenizer alone\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  --sizes N,WxH,...      pixels (512,768,1024,1536,2048; on the CPU 256)\n"
    "  --batch N,...          pictures of a batch (1)\n"
    "  --dtype bf16,fp8,...   one or more of fp32, bf16, fp8, auto; each is compared with the\n"
    "                         first (auto)\n"
    "  --tokens N             of each prompt, with its template (100)\n"
    "  --steps N              of a whole picture (8)\n"
    "  --stages LIST          of forward,text,decode,image (all)\n"
    "  --repeat N --warmup N  runs of a stage that count, after some that do not (8, 3)\n"
    "  --image-repeat N       the same for whole pictures, after one that does not (3)\n"
    "  --threads N            of the CPU (all)\n"
    "  --deterministic        times nothing: draws each batch, of prompts of several lengths, and\n"
    "                         each of its pictures alone; fails unless all bits are the same\n"
    "  --json                 one object on standard output\n"
    "\n"
    "Examples:\n"
    "  kiln bench engine --config scripts/bench/z-image-turbo --random-weights --device cuda:0\n"
    "  kiln bench engine --sizes 256,512 --dtype fp32,bf16\n";

enum option_code {
    OPTION_CONFIG = 256,
    OPTION_RANDOM,
    OPTION_DEVICE,
    OPTION_SIZES,
    OPTION_BATCH,
    OPTION_DTYPE,
    OPTION_TOKENS,
    OPTION_STEPS,
    OPTION_STAGES,
    OPTION_REPEAT,
    OPTION_WARMUP,
    OPTION_IMAGE_REPEAT,
    OPTION_THREADS,
    OPTION_DETERMINISTIC,
    OPTION_JSON,
};

static const struct option table[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"model", required_argument, NULL, OPTION_CONFIG},
    {"random-weights", no_argument, NULL, OPTION_RANDOM},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"sizes", required_argument, NULL, OPTION_SIZES},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"tokens", required_argument, NULL, OPTION_TOKENS},
    {"steps", required_argument, NULL, OPTION_STEPS},
    {"stages", required_argument, NULL, OPTION_STAGES},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"warmup", required_argument, NULL, OPTION_WARMUP},
    {"image-repeat", required_argument, NULL, OPTION_IMAGE_REPEAT},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"deterministic", no_argument, NULL, OPTION_DETERMINISTIC},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* --- lists ------------------------------------------------------------------------------------ */

static int take_size(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_bench_options *o = arg;
    const int i = o->size_count++;
    return kiln_bench_size(text, &o->sizes[i].width, &o->sizes[i].height, err);
}

static int take_batch(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_bench_options *o = arg;
    return kiln_verb_small("batch", text, 1, KILN_ASSIGN_MAX, &o->batches[o->batch_count++], err);
}

static int take_dtype(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_bench_options *o = arg;
    return kiln_dtype_parse(text, &o->dtypes[o->dtype_count++], err);
}

static int take_stage(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_bench_options *o = arg;
    static const struct {
        const char *name;
        int32_t bit;
    } stages[] = {{"forward", KILN_STAGE_FORWARD},
                  {"text", KILN_STAGE_TEXT},
                  {"decode", KILN_STAGE_DECODE},
                  {"image", KILN_STAGE_IMAGE}};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (strcmp(text, stages[i].name) == 0) {
            o->common.stages |= stages[i].bit;
            return 0;
        }
    return kiln_fail(err, KILN_BAD_INPUT,
                     "--stages \"%s\": expected some of forward, text, decode, image", text);
}

/* The last list given counts. */
static int take_lists(struct kiln_bench_options *o, int option, char *value, struct kiln_error *err)
{
    switch (option) {
    case OPTION_SIZES:
        o->size_count = 0;
        return kiln_bench_list("sizes", value, KILN_BENCH_LIST_MAX, take_size, o, err);
    case OPTION_BATCH:
        o->batch_count = 0;
        return kiln_bench_list("batch", value, KILN_BENCH_LIST_MAX, take_batch, o, err);
    case OPTION_DTYPE:
        o->dtype_count = 0;
        return kiln_bench_list("dtype", value, KILN_BENCH_LIST_MAX, take_dtype, o, err);
    default:
        o->common.stages = 0;
        return kiln_bench_list("stages", value, KILN_BENCH_LIST_MAX, take_stage, o, err);
    }
}

/* --- the command line ---------------------------------------------------------------------------
 */

static int take_number(struct kiln_bench_options *o, int option, const char *value,
                       struct kiln_error *err)
{
    switch (option) {
    case OPTION_TOKENS:
        return kiln_verb_small("tokens", value, KILN_STAGE_TOKENS_MIN, KILN_TOKENS_MAX,
                               &o->common.tokens, err);
    case OPTION_STEPS:
        return kiln_verb_steps(value, &o->common.num_steps, err);
    case OPTION_REPEAT:
        return kiln_verb_small("repeat", value, 1, KILN_STAGE_RUNS_MAX, &o->common.repeats,
                               err);
    case OPTION_WARMUP:
        return kiln_verb_small("warmup", value, 0, KILN_STAGE_RUNS_MAX, &o->common.warmups,
                               err);
    case OPTION_IMAGE_REPEAT:
        return kiln_verb_small("image-repeat", value, 1, KILN_STAGE_RUNS_MAX,
                               &o->common.image_repeats, err);
    case OPTION_THREADS:
        return kiln_verb_threads(value, &o->threads, err);
    default:
        return kiln_fail(err, KILN_BAD_INPUT, "`kiln bench engine --help` shows the options");
    }
}

static int take_option(struct kiln_bench_options *o, int option, char *value,
                       struct kiln_error *err)
{
    switch (option) {
    case OPTION_CONFIG:
        o->model = value;
        return 0;
    case OPTION_RANDOM:
        o->random_weights = true;
        return 0;
    case OPTION_DEVICE:
        return kiln_device_parse(value, &o->device, err);
    case OPTION_SIZES:
    case OPTION_BATCH:
    case OPTION_DTYPE:
    case OPTION_STAGES:
        return take_lists(o, option, value, err);
    case OPTION_DETERMINISTIC:
        o->deterministic = true;
        return 0;
    case OPTION_JSON:
        o->json = true;
        return 0;
    case 'h':
        o->help = true;
        return 0;
    default:
        return take_number(o, option, value, err);
    }
}

/* What was not said. */
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
}

int kiln_bench_options_read(int argc, char **argv, struct kiln_bench_options *ret,
                            struct kiln_error *err)
{
    struct kiln_bench_options o = {.device = -1,
                                   .common = {.tokens = TOKENS_USUAL,
                                              .num_steps = KILN_STEPS_DEFAULT,
                                              .warmups = 3,
                                              .repeats = 8,
                                              .image_repeats = 3,
                                              .stages = KILN_STAGES_ALL}};
    int c, code = 0;
    while (!code && !o.help && (c = getopt_long(argc, argv, "h", table, NULL)) != -1)
        code = take_option(&o, c, optarg, err);
    if (!code && !o.help && optind < argc)
        code = kiln_fail(err, KILN_BAD_INPUT, "unexpected argument \"%s\"", argv[optind]);
    if (!code && !o.help && !o.model)
        code = kiln_fail(err, KILN_BAD_INPUT, "--config DIR is missing");
    if (!code && !o.help && o.deterministic && o.json)
        code = kiln_fail(err, KILN_BAD_INPUT, "--deterministic has no figures for --json");
    if (code)
        return code;
    add_usual(&o);
    *ret = o;
    return 0;
}
