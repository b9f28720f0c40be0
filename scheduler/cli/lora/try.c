/* try.c - see try.h. */
#include "scheduler/cli/lora/try.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/lora/open.h"
#include "scheduler/cli/lora/registry.h"
#include "scheduler/embedding/loras.h"
#include "scheduler/router/lora_file.h"
#include "storage/formats/card/model_card.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/lora/lora.h"

static json_t *candidate_json(const struct kiln_router *router,
                              const struct kiln_route_candidate *c)
{
    return json_pack("{s:s, s:f, s:s, s:s, s:s?, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name",
                     kiln_router_lora(router, c->lora)->name, "p", c->p / 1000.0, "why",
                     kiln_route_why_name(c->why), "by",
                     c->by_trigger   ? "trigger"
                     : c->by_meaning ? "meaning"
                                     : "words",
                     "text", *c->text ? c->text : NULL, "t", c->t / 1000.0, "k", c->k / 1000.0, "b",
                     c->b / 1000.0, "n", c->n / 1000.0, "c", c->c / 1000.0, "m", c->m / 1000.0, "x",
                     c->x / 1000.0);
}

static int print_json(const struct kiln_cli *cli, const struct kiln_router *router,
                      const char *prompt, const struct kiln_route *route)
{
    json_t *loras = json_array(), *candidates = json_array();
    for (uint32_t i = 0; i < route->count; i++)
        (void)json_array_append_new(loras,
                                    json_pack("{s:s, s:f}", "name",
                                              kiln_router_lora(router, route->picks[i].lora)->name,
                                              "scale", route->picks[i].scale));
    for (uint32_t i = 0; i < route->shown_count; i++)
        (void)json_array_append_new(candidates, candidate_json(router, &route->shown[i]));
    return kiln_print_json(
        cli, json_pack("{s:s, s:s, s:o, s:o, s:s, s:I, s:b, s:b}", "prompt", prompt, "drawn",
                       route->prompt, "loras", loras, "candidates", candidates, "reason",
                       route->reason, "version", (json_int_t)kiln_router_version(router),
                       "trigger_dropped", route->trigger_dropped, "lora_tags", route->tags));
}

static void print_text(const struct kiln_router *router, const char *prompt,
                       const struct kiln_route *route)
{
    if (route->count == 0)
        printf("no LoRA\n");
    for (uint32_t i = 0; i < route->shown_count; i++) {
        const struct kiln_route_candidate *c = &route->shown[i];
        const struct kiln_router_lora *lora = kiln_router_lora(router, c->lora);
        double scale = 0;
        for (uint32_t p = 0; p < route->count; p++)
            if (route->picks[p].lora == c->lora)
                scale = route->picks[p].scale;
        char chosen[32], why[160] = "";
        snprintf(chosen, sizeof chosen, "    -");
        if (c->why == KILN_ROUTE_CHOSEN)
            snprintf(chosen, sizeof chosen, "%5.2f", scale);
        if (c->by_meaning)
            snprintf(why, sizeof why, ", by meaning (cosine %.2f)", c->c / 1000.0);
        else if (*c->text)
            snprintf(why, sizeof why, ", %s \"%s\"", c->by_trigger ? "trigger" : "phrase", c->text);
        kiln_print_line("%-20s %s  p %.2f  %s%s", lora->name, chosen, c->p / 1000.0,
                        c->why == KILN_ROUTE_CHOSEN ? kiln_lora_category_name(lora->category)
                                                    : kiln_route_why_name(c->why),
                        why);
    }
    if (strcmp(route->prompt, prompt) != 0)
        kiln_print_line("drawn as: %s", route->prompt);
}

/* The registry of the settings, or the file of --loras. */
static int open_router(struct kiln_cli *cli, const char *path, uint64_t version,
                       struct kiln_lexicon **lexicon, struct kiln_router **ret,
                       struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    if (path)
        return kiln_loras_open(path, lexicon, ret, err);
    int rc = kiln_open_reader(cli, &ledger, err);
    rc = rc ? rc : kiln_loras_open_registry(ledger, kiln_pool(cli), version, lexicon, ret, err);
    kiln_ledger_close(ledger);
    return rc;
}

/* Routes by the embedder of the settings, if there is one. */
static int route_prompt(struct kiln_cli *cli, struct kiln_router *router,
                        struct kiln_router_request *request, struct kiln_router_reader **reader,
                        struct kiln_route *ret, struct kiln_error *err)
{
    const char *dir = kiln_embedding_dir(cli->config);
    struct kiln_embedding_model *model = NULL;
    struct kiln_embedding_vectors vectors = {0};
    int rc = dir ? kiln_embedding_model_open(dir, &model, err) : 0;
    rc = rc || !dir ? rc : kiln_embedding_loras(model, router, NULL, NULL, NULL, err);
    if (!rc && !(*reader = kiln_router_reader_new(router)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to route a prompt");
    rc = rc || !dir ? rc : kiln_embedding_model_request(model, *reader, request, &vectors, err);
    rc = rc ? rc : kiln_router_route(*reader, request, ret, err);
    kiln_embedding_vectors_release(&vectors);
    kiln_embedding_model_close(model);
    return rc;
}

int kiln_lora_try(struct kiln_cli *cli, const struct kiln_args *args)
{
    static struct kiln_model_card card;
    const char *base = kiln_arg(args, "base"), *variant = kiln_arg(args, "variant");
    const char *path = kiln_arg(args, "loras");
    struct kiln_lexicon *lexicon = NULL;
    struct kiln_router *router = NULL;
    struct kiln_route route;
    struct kiln_error err;
    uint64_t at;
    int status = kiln_lora_arg_at(cli, args, &at);
    if (status)
        return status;
    if (args->rest_count != 2)
        return kiln_usage(cli, "give the prompt as one word: kiln lora try 'a fox, pixel art'");
    if (path && at != KILN_LORA_NOW)
        return kiln_usage(cli, "--version is a version of the registry, and --loras a file");
    kiln_model_card_known(cli->config, &card);
    struct kiln_router_request request = {
        .prompt = args->rest[1],
        .negative_prompt = kiln_arg(args, "negative-prompt"),
        .style = kiln_arg(args, "style"),
        .pool = {.base = base ? base : card.base,
                 .variant = variant ? variant : card.variant,
                 .tenant = kiln_arg(args, "of-tenant"),
                 .licences = kiln_arg(args, "commercial")
                                 ? "commercial"
                                 : kiln_config_text(cli->config, KILN_KEY_ROUTER_LICENCES),
                 .video = kiln_arg(args, "video") != NULL}};
    if (open_router(cli, path, at, &lexicon, &router, &err))
        return kiln_report(cli, &err);
    struct kiln_router_reader *reader = NULL;
    int rc = route_prompt(cli, router, &request, &reader, &route, &err);
    if (rc)
        status = kiln_report(cli, &err);
    else if (cli->json)
        status = print_json(cli, router, request.prompt, &route);
    else
        print_text(router, request.prompt, &route);
    if (!rc && route.tags)
        kiln_warn(cli, "<lora:...> in a prompt is not obeyed; a job line names LoRAs in 'loras'");
    if (!rc && route.trigger_dropped)
        kiln_warn(cli, "the prompt has no room for another trigger");
    kiln_router_reader_free(reader);
    kiln_router_free(router);
    kiln_lexicon_free(lexicon);
    return status;
}
