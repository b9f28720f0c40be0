/* quality_options.c - the command line of `kiln bench quality`; see quality.h. */
#include <getopt.h>
#include <string.h>

#include "worker/bench/quality.h"
#include "worker/bench/options.h"
#include "worker/engine/renderer.h"
#include "worker/verbs/verbs.h"

#define COUNT_DEFAULT 100

const char kiln_quality_usage[] =
    "Usage: kiln bench quality [options]\n"
    "\n"
    "Draws prompts whose pictures can be checked, looks at every picture, and prints how much of\n"
    "what the prompts say is right.  The judge knows the world of the demo model.\n"
    "\n"
    "  --model DIR            diffusers layout (that of the settings, else the demo model)\n"
    "  --prompts FILE         JSON lines with what they ask (the standard table of tests/quality)\n"
    "  --sizes N,WxH,...      instead of the sizes of the prompts\n"
    "  --steps N,...          (8; the standard table also has a row of 4)\n"
    "  --dtype fp32,bf16,fp8  one or more (fp32)\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  -n N                   prompts of a list at most (100; with --prompts all)\n"
    "  --lora FILE[:W]        a safetensors file and its strength (1); up to 3 times\n"
    "  --style NAME           count pictures in this style; adds \", NAME style\" to the prompts\n"
    "  --suffix TEXT          add this to the prompts instead\n"
    "  --failures DIR         write the pictures that are not all right, and what was seen\n"
    "  --at-least PCT         end with 1 if a row has fewer of its attributes right\n"
    "  --judge DIR            another judge\n"
    "  --threads N            of the CPU (all)\n"
    "  --json                 one object on standard output\n"
    "\n"
    "Examples:\n"
    "  kiln bench quality\n"
    "  kiln bench quality --sizes 256x256,512x512 --steps 8,4 --dtype fp32,bf16 -n 50\n"
    "  kiln bench quality --lora neon.safetensors --style neon --failures wrong\n";

enum option_code {
    OPTION_MODEL = 256,
    OPTION_PROMPTS,
    OPTION_SIZES,
    OPTION_STEPS,
    OPTION_DTYPE,
    OPTION_DEVICE,
    OPTION_LORA,
    OPTION_STYLE,
    OPTION_SUFFIX,
    OPTION_FAILURES,
    OPTION_AT_LEAST,
    OPTION_JUDGE,
    OPTION_LISTS,
    OPTION_THREADS,
    OPTION_JSON,
};

static const struct option table[] = {
    {"model", required_argument, NULL, OPTION_MODEL},
    {"prompts", required_argument, NULL, OPTION_PROMPTS},
    {"sizes", required_argument, NULL, OPTION_SIZES},
    {"steps", required_argument, NULL, OPTION_STEPS},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"lora", required_argument, NULL, OPTION_LORA},
    {"style", required_argument, NULL, OPTION_STYLE},
    {"suffix", required_argument, NULL, OPTION_SUFFIX},
    {"failures", required_argument, NULL, OPTION_FAILURES},
    {"at-least", required_argument, NULL, OPTION_AT_LEAST},
    {"judge", required_argument, NULL, OPTION_JUDGE},
    {"lists", required_argument, NULL, OPTION_LISTS}, /* `kiln` says where they are installed */
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int take_size(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_quality_options *o = arg;
    const int i = o->size_count++;
    return kiln_bench_size(text, &o->sizes[i].width, &o->sizes[i].height, err);
}

static int take_step(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_quality_options *o = arg;
    return kiln_verb_steps(text, &o->steps[o->step_count++], err);
}

static int take_dtype(void *arg, char *text, struct kiln_error *err)
{
    struct kiln_quality_options *o = arg;
    return kiln_dtype_parse(text, &o->dtypes[o->dtype_count++], err);
}

/* The lists of numbers: the last one given counts. */
static int take_lists(struct kiln_quality_options *o, int option, char *value,
                      struct kiln_error *err)
{
    switch (option) {
    case OPTION_SIZES:
        o->size_count = 0;
        return kiln_bench_list("sizes", value, KILN_QUALITY_LIST_MAX, take_size, o, err);
    case OPTION_STEPS:
        o->step_count = 0;
        return kiln_bench_list("steps", value, KILN_QUALITY_LIST_MAX, take_step, o, err);
    default:
        o->dtype_count = 0;
        return kiln_bench_list("dtype", value, KILN_QUALITY_LIST_MAX, take_dtype, o, err);
    }
}

static int take_lora(struct kiln_quality_options *o, char *value, struct kiln_error *err)
{
    int code = kiln_verb_lora(value, o->lora_count, &o->loras[o->lora_count], err);
    o->lora_count += code == 0;
    return code;
}

/* Options whose value is kept as it is: where it goes, or NULL for another option. */
static const char **text_of(struct kiln_quality_options *o, int option)
{
    switch (option) {
    case OPTION_MODEL:
        return &o->model;
    case OPTION_PROMPTS:
        return &o->prompts;
    case OPTION_STYLE:
        return &o->style;
    case OPTION_SUFFIX:
        return &o->suffix;
    case OPTION_FAILURES:
        return &o->failures;
    case OPTION_JUDGE:
        return &o->judge;
    case OPTION_LISTS:
        return &o->lists;
    default:
        return NULL;
    }
}

static int take_option(struct kiln_quality_options *o, int option, char *value,
                       struct kiln_error *err)
{
    const char **text = text_of(o, option);
    if (text) {
        *text = value;
        return 0;
    }
    switch (option) {
    case OPTION_SIZES:
    case OPTION_STEPS:
    case OPTION_DTYPE:
        return take_lists(o, option, value, err);
    case OPTION_DEVICE:
        return kiln_device_parse(value, &o->device, err);
    case OPTION_LORA:
        return take_lora(o, value, err);
    case OPTION_AT_LEAST:
        return kiln_verb_number("at-least", value, 0, 100, &o->at_least, err);
    case OPTION_THREADS:
        return kiln_verb_threads(value, &o->threads, err);
    case OPTION_JSON:
        o->json = true;
        return 0;
    case 'n':
        return kiln_verb_whole("n", value, 1, KILN_REQUESTS_MAX, &o->count, err);
    case 'h':
        o->help = true;
        return 0;
    default:
        return kiln_fail(err, KILN_BAD_INPUT, "`kiln bench quality --help` shows the options");
    }
}

int kiln_quality_options_read(int argc, char **argv, struct kiln_quality_options *ret,
                              struct kiln_error *err)
{
    struct kiln_quality_options o = {.device = -1};
    int c, code = 0;
    while (!code && !o.help && (c = getopt_long(argc, argv, "hn:", table, NULL)) != -1)
        code = take_option(&o, c, optarg, err);
    if (!code && !o.help && optind < argc)
        code = kiln_fail(err, KILN_BAD_INPUT, "unexpected argument \"%s\"", argv[optind]);
    if (!code && !o.help && (!o.model || !o.judge || (!o.prompts && !o.lists)))
        code = kiln_fail(err, KILN_BAD_INPUT, "%s is missing",
                         !o.model   ? "--model DIR"
                         : !o.judge ? "--judge DIR"
                                    : "--prompts FILE");
    if (!o.count)
        o.count = o.prompts ? KILN_REQUESTS_MAX : COUNT_DEFAULT;
    if (!o.dtype_count)
        o.dtypes[o.dtype_count++] = DIFFUSIONZ_FP32;
    if (!code)
        *ret = o;
    return code;
}
