/* test_recipe.c - the command that makes a picture again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/parts/recipe.h"

static const struct kiln_job job = {.id = 7,
                                    .prompt = (char *)"it's red",
                                    .negative_prompt = (char *)"",
                                    .model = (char *)"",
                                    .width = 128,
                                    .height = 64,
                                    .steps = 8,
                                    .seed = 5};

/* What stands between the seed and the output for a row with this job; NULL: there is no command.
 */
static void expect_row(struct kiln_job_row row, const char *options)
{
    static const char *const whole = "kiln render --prompt 'it'\\''s red' --width 128 --height 64"
                                     " --steps 8 --seed 5%s --out kiln-7.webp";
    struct kiln_text command = {0};
    char want[256];
    assert_int_equal(kiln_gallery_command(&row, &command), options != NULL);
    snprintf(want, sizeof want, whole, options ? options : "");
    if (options)
        assert_string_equal(command.at, want);
    else
        assert_int_equal(command.len, 0);
    kiln_text_release(&command);
}

static void expect(const char *mode, const char *options)
{
    struct kiln_job_row row = {.job = job};
    snprintf(row.rendered_mode, sizeof row.rendered_mode, "%s", mode);
    expect_row(row, options);
}

static void the_command_names_the_mode(void **state)
{
    (void)state;
    expect("", "");
    expect("variety=0.3", " --variety 0.3");
    expect("coarse=4+3", " --coarse 4+3");
    expect("coarse=3+1+3", " --coarse 3+1+3");
    expect("coarse=4+3@0.8", " --coarse 4+3 --coarse-sigma 0.8");
    expect("coarse=4+3,variety=0.5", " --coarse 4+3 --variety 0.5");
    expect("start=3", NULL);
    expect("start=3,variety=0.3", NULL);
    expect("inpaint=3", NULL);
}

static void loras_are_named_and_another_model_is_not(void **state)
{
    (void)state;
    struct kiln_job_row row = {.job = job};
    row.job.lora_count = 2;
    row.job.loras[0] = (struct kiln_lora){.name = "ink", .scale = 0.8};
    row.job.loras[1] = (struct kiln_lora){.name = "paper", .scale = 1};
    expect_row(row, " --lora ink:0.8 --lora paper:1");
    row.job.model = (char *)"turbo";
    expect_row(row, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_names_the_mode),
        cmocka_unit_test(loras_are_named_and_another_model_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
