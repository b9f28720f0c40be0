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
                                    .width = 128,
                                    .height = 64,
                                    .steps = 8,
                                    .seed = 5};

/* What stands between the seed and the output for a picture rendered in this mode; NULL: none. */
static void expect(const char *mode, const char *options)
{
    static const char *const whole = "kiln render --prompt 'it'\\''s red' --width 128 --height 64"
                                     " --steps 8 --seed 5%s --out kiln-7.webp";
    struct kiln_job_row row = {.job = job};
    struct kiln_text command = {0};
    char want[256];
    snprintf(row.rendered_mode, sizeof row.rendered_mode, "%s", mode);
    assert_int_equal(kiln_gallery_command(&row, &command), options != NULL);
    snprintf(want, sizeof want, whole, options ? options : "");
    if (options)
        assert_string_equal(command.at, want);
    else
        assert_int_equal(command.len, 0);
    kiln_text_release(&command);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_names_the_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
