/* test_fit.c - listings on a terminal: names shortened in the middle, lines cut or wrapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"

static void check_cell(int columns, const char *name, int width, const char *wanted)
{
    struct kiln_text line = {0};
    kiln_text_cell(&line, columns, name, width);
    assert_string_equal(line.at, wanted);
    kiln_text_release(&line);
}

static void a_cell_keeps_both_ends_of_a_name(void **state)
{
    (void)state;
    check_cell(80, "short", 8, "short   ");
    check_cell(80, "exactly8", 8, "exactly8");
    check_cell(80, "ip-10-0-12-133.internal-gpu7", 16, "ip-10-0-12…-gpu7");
    check_cell(0, "ip-10-0-12-133.internal-gpu7", 16, "ip-10-0-12-133.internal-gpu7");
    check_cell(80, "\xe5\xa4\x9c\xe5\xa4\x9c\xe5\xa4\x9c\xe5\xa4\x9c\xe5\xa4\x9c", 6,
               "\xe5\xa4\x9c…\xe5\xa4\x9c "); /* two columns each */
    check_cell(80, "a\033[2Jb", 12, "a\\u001b[2Jb ");
}

static void check_fit(const char *text, int columns, int hang, const char *wanted)
{
    struct kiln_text out = {0};
    kiln_text_fit(&out, text, columns, hang);
    assert_string_equal(out.at ? out.at : "", wanted);
    kiln_text_release(&out);
}

static void a_line_is_cut_or_wrapped(void **state)
{
    (void)state;
    check_fit("a line\nanother line\n", 12, KILN_CUT, "a line\nanother line\n");
    check_fit("a line\nanother line\n", 11, KILN_CUT, "a line\nanother li…\n");
    check_fit("a line that nobody cuts", 0, KILN_CUT, "a line that nobody cuts");
    check_fit("\033[31mfailed\033[0m", 6, KILN_CUT, "\033[31mfailed\033[0m");
    check_fit("\033[31mfailed jobs\033[0m", 7, KILN_CUT, "\033[31mfailed…\033[0m");
    check_fit("next  render it once again\n", 16, 6, "next  render it\n      once again\n");
    check_fit("    deep  averyverylongword", 16, 4, "    deep\n    averyverylon\n    gword");
    check_fit("averyverylongword", 10, 2, "averyveryl\n  ongword");
    check_fit("usage: one|two|three", 14, 4, "usage:\n    one|two|\n    three");
    check_fit("full  images/2026/11/4711/full-0123456789abcdef.webp", 30, 6,
              "full\n      images/2026/11/4711/\n      full-0123456789abcdef.we\n      bp");
    check_fit("x y", 2, 40, "x\n y"); /* the indent leaves half a line */
    check_fit("", 10, 0, "");
}

/* Whatever stands in it, no line is wider than the terminal. */
static void no_line_is_wider(void **state)
{
    static const char *const pieces[] = {"word ", "\xe5\xa4\x9c", "averyverylongword",
                                         "  ",    "e\xcc\x81",    "\n"};
    unsigned number = 1;
    (void)state;
    for (int round = 0; round < 500; round++) {
        struct kiln_text text = {0}, out = {0};
        kiln_text_puts(&text, "x");
        for (int i = 0; i < 30; i++) {
            number = number * 1103515245u + 12345u;
            kiln_text_puts(&text, pieces[number / 65536 % 6]);
        }
        int columns = 20 + round % 60, hang = round % 3 ? round % 17 : KILN_CUT;
        kiln_text_fit(&out, text.at, columns, hang);
        for (char *line = strtok(out.at, "\n"); line; line = strtok(NULL, "\n"))
            assert_in_range(kiln_safe_columns(line), 0, (uintmax_t)columns);
        kiln_text_release(&text);
        kiln_text_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_keeps_both_ends_of_a_name),
        cmocka_unit_test(a_line_is_cut_or_wrapped),
        cmocka_unit_test(no_line_is_wider),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
