/* test_text_note.c - what the engine says of texts that cannot be recorded as graphs, with a double
 * of the pass over several prompts: the CPU records nothing. */
#include "pipeline/text/encoder.h"
#include "tests/pipeline/one_context.h"

#define REASON "texts of 128 rows and more are not recorded as graphs: no room for a graph"

static bool fails;
static int passes;

void kiln_text_encoder_run_many(const struct kiln_text_encoder *te, struct kt_scope *s,
                                const struct kiln_prompt_ids *prompts, size_t n,
                                struct kiln_graph_cache *graphs, kt *ret_features,
                                struct kiln_error *ret_unrecorded)
{
    assert_non_null(graphs);
    assert_non_null(ret_unrecorded);
    *ret_unrecorded = (struct kiln_error){.code = 0};
    for (size_t i = 0; i < n; i++)
        ret_features[i] = kiln_text_encoder_run(te, s, prompts[i].ids, prompts[i].count);
    if (fails)
        kiln_fail(ret_unrecorded, KILN_NO_MEMORY, "%s", REASON);
    passes++;
}

/* A picture comes out whatever becomes of the recording. */
static void draw(const char *prompt)
{
    DiffusionZOutput out;
    const DiffusionZItem item = {.prompt = prompt, .seed = 1};
    const DiffusionZBatch batch = {
        .items = &item, .item_count = 1, .width = 64, .height = 64, .num_steps = 1};
    if (diffusionz_run_batch(ctx, &batch, &out, NULL))
        fail_msg("%s", diffusionz_last_error());
    assert_int_equal(out.error_code, 0);
    diffusionz_release_outputs(&out, 1);
}

static void a_text_that_is_not_recorded_is_noted(void **state)
{
    (void)state;
    draw("a star");
    assert_string_equal(diffusionz_note(ctx), "");
    fails = true;
    draw("a blue star");
    assert_string_equal(diffusionz_note(ctx), REASON);
    fails = false;
    draw("a red star");
    assert_string_equal(diffusionz_note(ctx), REASON); /* as long as there is nothing else to say */
    draw("a red star");
    assert_int_equal(passes, 3); /* its features were there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_text_that_is_not_recorded_is_noted, open_context,
                                        close_context),
    };
    return cmocka_run_group_tests_name("text_note", tests, NULL, NULL);
}
