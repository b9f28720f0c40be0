/* fuzz_router.c - any bytes as a prompt: at most three LoRAs that suit, scales within bounds, a
 * reason that is JSON and short, and a prompt as drawn that ends with the prompt as written. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "scheduler/router/lora_file.h"
#include "scheduler/router/router.h"
#include "tests/fuzz/fuzz.h"

static const char file[] =
    "{\"loras\": [{\"name\": \"neon\", \"triggers\": [\"neon style\", \"neon\"], \"positive\": "
    "[\"glowing outlines\"], \"negative\": [\"neon tetra\"]}, {\"name\": \"oil\", \"triggers\": "
    "[\"oil painting\"], \"scale\": -0.7}, {\"name\": \"fox\", \"category\": \"character\", "
    "\"triggers\": [\"tilda fox\"]}, {\"name\": \"ink\", \"triggers\": [\"水墨画\"]}, {\"name\": "
    "\"rays\", \"category\": \"effect\", \"triggers\": [\"god rays\"], \"scale\": 0.3}]}";

static struct kiln_router_reader *reader_of_file(void)
{
    struct kiln_error err;
    struct kiln_router_lora *loras;
    struct kiln_lexicon *lexicon;
    struct kiln_router *router;
    size_t count;
    fuzz_require(kiln_lora_file_read(file, sizeof file - 1, "file", &loras, &count, &err) == 0);
    fuzz_require(kiln_lexicon_new(&lexicon, &err) == 0);
    fuzz_require(kiln_router_build(loras, count, 1, lexicon, &router, &err) == 0);
    return kiln_router_reader_new(router);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kiln_router_reader *reader;
    struct kiln_route route;
    struct kiln_error err = {0};
    reader = reader ? reader : reader_of_file();
    char *prompt = malloc(size + 1);
    if (!prompt)
        return 0;
    memcpy(prompt, data, size);
    prompt[size] = '\0';
    const struct kiln_router_request request = {.prompt = prompt};
    if (kiln_router_route(reader, &request, &route, &err) == 0) {
        double sum = 0;
        fuzz_require(route.count <= KILN_LORAS_MAX);
        for (uint32_t i = 0; i < route.count; i++)
            sum += fabs(route.picks[i].scale);
        fuzz_require(sum <= (route.count == 2 ? 1.2001 : 1.5001));
        fuzz_require(strlen(route.reason) <= KILN_ROUTER_REASON_MAX);
        json_t *reason = json_loads(route.reason, 0, NULL);
        fuzz_require(reason != NULL);
        json_decref(reason);
        const size_t drawn = strlen(route.prompt), written = strlen(prompt);
        fuzz_require(drawn <= KILN_PROMPT_MAX && drawn >= written);
        fuzz_require(strcmp(route.prompt + drawn - written, prompt) == 0);
    } else {
        fuzz_require(err.text[0]);
    }
    free(prompt);

    struct kiln_router_lora *loras;
    size_t count;
    if (kiln_lora_file_read((const char *)data, size, "data", &loras, &count, &err) == 0) {
        for (size_t i = 0; i < count; i++)
            kiln_router_lora_release(&loras[i]);
        free(loras);
    }
    return 0;
}
