/* test_input_jobs.c - job files of every format, and every way in which a file can be odd: what is
 * refused is refused by its line, and the rest goes on. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/cli/jobs/enqueue/input_jobs.h"
#include "scheduler/cli/jobs/enqueue/input_value.h"
#include "schemas/limits.h"
#include "tests/support/files.h"

/* Reads all of an input into one text: "LINE job" or "LINE! reason" a row. */
static char *read_input(struct kiln_input *input)
{
    struct kiln_text out = {0};
    struct kiln_error err;
    for (;;) {
        const char *text;
        size_t len;
        uint64_t line;
        int code = kiln_input_next(input, &text, &len, &line, &err);
        if (code == 0 && !text)
            break;
        kiln_text_printf(&out, "%llu%s", (unsigned long long)line, code ? "! " : " ");
        if (code)
            kiln_text_puts(&out, err.text);
        else
            kiln_text_add(&out, text, len);
        kiln_text_puts(&out, "\n");
        if (code && code != KILN_BAD_INPUT)
            break;
    }
    kiln_text_add(&out, "", 0);
    return kiln_text_take(&out);
}

static char *read_path(const char *path, enum kiln_format format)
{
    struct kiln_input *input;
    struct kiln_error err;
    if (kiln_input_open(path, format, false, &input, &err) != 0)
        fail_msg("%s: %s", path, err.text);
    char *rows = read_input(input);
    kiln_input_close(input);
    return rows;
}

static void check_bytes(const char *path, const void *bytes, size_t len, const char *rows)
{
    kiln_test_write_bytes(path, bytes, len);
    char *got = read_path(path, KILN_FORMAT_AUTO);
    assert_string_equal(got, rows);
    free(got);
}

static void check(const char *path, const char *content, const char *rows)
{
    check_bytes(path, content, strlen(content), rows);
}

static void json_lines_are_passed_on(void **state)
{
    (void)state;
    check("a.jsonl", "{\"prompt\":\"x\"}\n\n  {\"prompt\":\"y\"}  \r\n{broken\n",
          "1 {\"prompt\":\"x\"}\n3 {\"prompt\":\"y\"}\n4 {broken\n");
    check("a.ndjson", "not json", "1 not json\n");
}

static void text_lines_become_prompts(void **state)
{
    (void)state;
    check("a.txt", "a cat\n# not this\n\n   \n  a \"dog\"\\  \r\n{red|blue}",
          "1 {\"prompt\":\"a cat\"}\n5 {\"prompt\":\"a \\\"dog\\\"\\\\\"}\n6 "
          "{\"prompt\":\"{red|blue}\"}\n");
}

static void the_format_is_guessed_from_name_or_first_byte(void **state)
{
    (void)state;
    check("list", "\n \t{\"prompt\":\"x\"}", "2 {\"prompt\":\"x\"}\n");
    check("list2", "a cat", "1 {\"prompt\":\"a cat\"}\n");
    check("b.txt", "{\"prompt\":\"x\"}", "1 {\"prompt\":\"{\\\"prompt\\\":\\\"x\\\"}\"}\n");
    kiln_test_write("c.txt", "prompt\nx");
    char *rows = read_path("c.txt", KILN_FORMAT_CSV);
    assert_string_equal(rows, "2 {\"prompt\":\"x\"}\n");
    free(rows);
    assert_int_equal(kiln_format_by_name("csv"), KILN_FORMAT_CSV);
    assert_int_equal(kiln_format_by_name("xls"), -1);
}

static void marks_line_ends_and_missing_ends_are_no_trouble(void **state)
{
    (void)state;
    check("bom.jsonl", "\xef\xbb\xbf{\"prompt\":\"x\"}\r\n{\"prompt\":\"y\"}",
          "1 {\"prompt\":\"x\"}\n2 {\"prompt\":\"y\"}\n");
    check("bom.txt", "\xef\xbb\xbfx", "1 {\"prompt\":\"x\"}\n");
    check("bom.csv", "\xef\xbb\xbfprompt\r\nx\r\n", "2 {\"prompt\":\"x\"}\n");
    check("empty.jsonl", "", "");
    check("blank.txt", "\n\n# only a comment\n", "");
    check("mark.txt", "\xef\xbb\xbf", "");
}

static void damaged_lines_are_refused_alone(void **state)
{
    (void)state;
    check_bytes("nul.txt", "a\0b\nc", 5, "1! a NUL byte at byte 2\n2 {\"prompt\":\"c\"}\n");
    check("latin1.txt", "caf\xe9\nc", "1! not valid UTF-8 at byte 4\n2 {\"prompt\":\"c\"}\n");
    check_bytes("nul.csv", "prompt\na\0b\nc\n", 13,
                "2! prompt: a NUL byte\n3 {\"prompt\":\"c\"}\n");
    check("latin1.csv", "prompt\ncaf\xe9\nc\n",
          "2! prompt: not valid UTF-8 at byte 4 of the cell\n3 {\"prompt\":\"c\"}\n");
}

static void a_line_of_ten_megabytes_is_passed_over(void **state)
{
    (void)state;
    const size_t size = 10 * 1024 * 1024;
    char *bytes = malloc(size + 16);
    memset(bytes, 'x', size);
    memcpy(bytes + size, "\na cat\n", 7);
    check_bytes(
        "long.txt", bytes, size + 7,
        "1! the line is 10485760 bytes long; the limit is 65536\n2 {\"prompt\":\"a cat\"}\n");
    check_bytes("last.txt", bytes, size,
                "1! the line is 10485760 bytes long; the limit is 65536\n");
    memset(bytes, 'x', KILN_LINE_MAX + 1);
    bytes[KILN_LINE_MAX + 1] = '\n';
    check_bytes("just.txt", bytes, KILN_LINE_MAX + 2,
                "1! the line is 65537 bytes long; the limit is 65536\n");
    free(bytes);
}

static void lines_cross_every_block_boundary(void **state)
{
    (void)state;
    struct kiln_text file = {0}, rows = {0};
    for (int i = 1; i <= 3000; i++) {
        kiln_text_printf(&file, "%0*d\n", 1 + i * 37 % 900, i);
        kiln_text_printf(&rows, "%d {\"prompt\":\"%0*d\"}\n", i, 1 + i * 37 % 900, i);
    }
    check_bytes("many.txt", file.at, file.len, rows.at);
    kiln_text_release(&file);
    kiln_text_release(&rows);
}

static void csv_cells_are_typed_by_their_column(void **state)
{
    (void)state;
    check("a.csv",
          "prompt, width ,height,seed,custom_id,embed_metadata,loras,size\n"
          "a cat,512,256,7,0012,TRUE,ink:0.5,\n"
          "\"a \"\"dog\"\", and\na bone\",,,1-9,,false,\"[{\"\"name\"\":\"\"ink\"\"}]\",16:9\n"
          "\n"
          "x,wide,,,,,,\n",
          "2 {\"prompt\":\"a cat\",\"width\":512,\"height\":256,\"seed\":7,\"custom_id\":\"0012\","
          "\"embed_metadata\":true,\"loras\":\"ink:0.5\"}\n"
          "3 {\"prompt\":\"a \\\"dog\\\", and\\na bone\",\"seed\":\"1-9\",\"embed_metadata\":false,"
          "\"loras\":[{\"name\":\"ink\"}],\"size\":\"16:9\"}\n"
          "6 {\"prompt\":\"x\",\"width\":\"wide\"}\n");
}

#define UNREAD "the list that begins with '[' cannot be read: "

/* No value adds keys or lines, and a list that is cut off says so. */
static void a_list_is_one_whole_array(void **state)
{
    (void)state;
    check("list.csv",
          "prompt,loras\na,\"[],\"\"count\"\":500\"\nb,\"[\n]\"\nc,\"[1]x\"\nd,[[1]\ne,[ ]\n",
          "2! loras: " UNREAD "not valid JSON at byte 3: nothing may follow the closing bracket\n"
          "3! loras: " UNREAD "it has a line break\n"
          "5! loras: " UNREAD "not valid JSON at byte 4: nothing may follow the closing bracket\n"
          "6! loras: " UNREAD "not valid JSON: it ends at byte 4, but a ',' or the "
          "closing bracket belongs here\n"
          "7 {\"prompt\":\"e\",\"loras\":[ ]}\n");
    check("words.csv", "style,prompt\n[x,[not a list\n",
          "2! style: " UNREAD "not valid JSON at byte 2: a value belongs here\n");
    const struct kiln_set set = {"loras", "[],\"tenant\":\"x\""};
    struct kiln_error err;
    char *json;
    assert_int_equal(kiln_input_overrides(&set, 1, &json, &err), KILN_BAD_INPUT);
    assert_string_equal(err.text,
                        "loras: " UNREAD "not valid JSON at byte 3: nothing may follow the closing "
                        "bracket");
}

static void broken_records_are_refused_alone(void **state)
{
    (void)state;
    check("b.csv", "prompt,seed\na\nb,1,2\nc \"d\",1\n\"e\"f,1\ng,1\n",
          "2! the record has 1 cell, the header has 2\n"
          "3! the record has 3 cells, the header has 2\n"
          "4! a '\"' inside a cell that does not begin with one; quote the whole cell and double "
          "the quote\n"
          "5! text after the closing '\"' of a cell\n"
          "6 {\"prompt\":\"g\",\"seed\":1}\n");
    check("open.csv", "prompt\n\"never closed\nx\n",
          "2! a quote is opened and not closed: the file is refused from here to its end\n");
    check("last.csv", "prompt\nx\n\"never closed\n",
          "2 {\"prompt\":\"x\"}\n"
          "3! a quote is opened and not closed: the file is refused from here to its end\n");
}

#define KEYS                                                                                       \
    "the keys are prompt, negative_prompt, width, height, size, style, styled, "                   \
    "steps, guidance, seed, count, loras, routed, model, priority, tenant, custom_id, kind, "      \
    "latents, sigmas, coarse, coarse_sigma, variety, init_image, init_job, init_mask, strength, "  \
    "start_sigma, edit, parent, teleport, alike, max_wait_s, embed_metadata, template"
#define HINT "  The first record of a CSV file names job keys, separated by commas\n"

static void a_wrong_header_ends_the_reading(void **state)
{
    (void)state;
    check("h1.csv", "promt,seed\na,1\n",
          "1! h1.csv:1: unknown column \"promt\"; did you mean \"prompt\"?" HINT);
    check("h2.csv", "prompt,seed,prompt\na,1,b\n",
          "1! h2.csv:1: column \"prompt\" is given twice\n");
    check("h3.csv", "\nprompt;seed\na;1\n",
          "2! h3.csv:2: unknown column \"prompt;seed\"; " KEYS "." HINT);
}

static void unreadable_inputs_are_named(void **state)
{
    (void)state;
    struct kiln_input *input;
    struct kiln_error err;
    assert_int_equal(kiln_input_open("nowhere.txt", KILN_FORMAT_AUTO, false, &input, &err),
                     KILN_NOT_FOUND);
    assert_string_equal(err.text, "open nowhere.txt: No such file or directory");
    assert_int_equal(kiln_input_open(".", KILN_FORMAT_AUTO, false, &input, &err), KILN_NOT_FOUND);
    assert_string_equal(err.text, ". is a directory");
    kiln_test_write_bytes("utf16.txt",
                          "\xff\xfe"
                          "a\0",
                          4);
    assert_int_equal(kiln_input_open("utf16.txt", KILN_FORMAT_AUTO, false, &input, &err),
                     KILN_CORRUPT);
    assert_string_equal(err.text, "utf16.txt is UTF-16; save it as UTF-8");
    kiln_test_write("a.tsv", "prompt\tseed\na\t1\n");
    assert_int_equal(kiln_input_open("a.tsv", KILN_FORMAT_AUTO, false, &input, &err), KILN_CORRUPT);
    assert_string_equal(err.text, "a.tsv is a table with tabs; save it as CSV, with commas");
    kiln_test_write("list.json", "[{\"prompt\":\"x\"}]");
    assert_int_equal(kiln_input_open("list.json", KILN_FORMAT_AUTO, false, &input, &err),
                     KILN_CORRUPT);
    assert_non_null(strstr(err.text, "is one JSON list"));
}

/* --- a FIFO -------------------------------------------------------------------------------- */

static void *feed_fifo(void *arg)
{
    int fd = open(arg, O_WRONLY);
    for (int i = 0; i < 5 && fd >= 0; i++) {
        assert_int_equal(write(fd, "a cat\n", 6), 6);
        usleep(1000);
    }
    close(fd);
    return NULL;
}

static void check_fifo(bool again)
{
    struct kiln_input *input;
    struct kiln_error err;
    pthread_t feeder;
    unlink("fifo");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(pthread_create(&feeder, NULL, feed_fifo, "fifo"), 0);
    assert_int_equal(kiln_input_open("fifo", KILN_FORMAT_AUTO, again, &input, &err), 0);
    char *rows = read_input(input);
    assert_non_null(strstr(rows, "5 {\"prompt\":\"a cat\"}\n"));
    if (again) {
        assert_int_equal(kiln_input_rewind(input, &err), 0);
        char *second = read_input(input);
        assert_string_equal(rows, second);
        free(second);
    } else {
        assert_int_equal(kiln_input_rewind(input, &err), KILN_IO);
    }
    free(rows);
    kiln_input_close(input);
    pthread_join(feeder, NULL);
}

static void a_fifo_is_read_as_it_comes(void **state)
{
    (void)state;
    check_fifo(false);
}

static void a_fifo_is_kept_when_it_is_read_twice(void **state)
{
    (void)state;
    check_fifo(true);
}

/* --- --set --------------------------------------------------------------------------------- */

/* Each model of OpenAI's is named once, also one whose name begins another's. */
static void models_that_are_passed_over_are_named_once(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt-image-1-mini", "gpt-image-1",     "dall-e-3", "turbo",
                                         "gpt-image-1",      "gpt-image-1-mini"};
    struct kiln_input *input;
    struct kiln_error err;
    struct kiln_text lines = {0};
    char passed[KILN_PASSED_OVER_MAX];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        kiln_text_printf(&lines,
                         "{\"custom_id\":\"%zu\",\"method\":\"POST\",\"url\":"
                         "\"/v1/images/generations\",\"body\":{\"prompt\":\"x\","
                         "\"model\":\"%s\",\"quality\":\"hd\"}}\n",
                         i, models[i]);
    kiln_test_write("openai.jsonl", lines.at);
    kiln_text_release(&lines);
    assert_int_equal(kiln_input_open("openai.jsonl", KILN_FORMAT_AUTO, false, &input, &err), 0);
    assert_false(kiln_input_passed_over(input, true, passed));
    assert_string_equal(passed, "");
    free(read_input(input));
    assert_true(kiln_input_passed_over(input, true, passed));
    assert_string_equal(passed, "gpt-image-1-mini, gpt-image-1, dall-e-3, quality hd");
    assert_false(kiln_input_passed_over(input, false, passed));
    assert_string_equal(passed, "quality hd");
    kiln_input_close(input);
}

static void overrides_are_typed(void **state)
{
    (void)state;
    const struct kiln_set sets[] = {{"set", "width=512"},
                                    {"set", "height=256"},
                                    {"set", "prompt=a=b"},
                                    {"set", "custom_id=7"},
                                    {"set", "steps=4"},
                                    {"set", "steps=9"},
                                    {"loras", "[]"},
                                    {"set", "embed_metadata=true"},
                                    {"set", "seed=18446744073709551615"}};
    struct kiln_error err;
    char *json;
    assert_int_equal(kiln_input_overrides(sets, 9, &json, &err), 0);
    assert_string_equal(
        json, "{\"prompt\":\"a=b\",\"width\":512,\"height\":256,\"steps\":9,\"seed\":"
              "18446744073709551615,\"loras\":[],\"custom_id\":\"7\",\"embed_metadata\":true}");
    free(json);
    const struct kiln_set wrong[] = {{"set", "width"}, {"set", "wdith=3"},     {"set", "nope="},
                                     {"set", "=x"},    {"set", "prompt=\xff"}, {"loras", "\xff"}};
    static const char *const says[] = {"--set width: '=' is missing; write KEY=VALUE",
                                       "--set: unknown key \"wdith\"; did you mean \"width\"?",
                                       "--set: unknown key \"nope\"; " KEYS,
                                       "--set: unknown key \"\"; " KEYS,
                                       "--set: the value of prompt is not valid UTF-8",
                                       "--loras: the value of loras is not valid UTF-8"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kiln_input_overrides(wrong + i, 1, &json, &err), KILN_BAD_INPUT);
        assert_string_equal(err.text, says[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_lines_are_passed_on),
        cmocka_unit_test(text_lines_become_prompts),
        cmocka_unit_test(the_format_is_guessed_from_name_or_first_byte),
        cmocka_unit_test(marks_line_ends_and_missing_ends_are_no_trouble),
        cmocka_unit_test(damaged_lines_are_refused_alone),
        cmocka_unit_test(a_line_of_ten_megabytes_is_passed_over),
        cmocka_unit_test(lines_cross_every_block_boundary),
        cmocka_unit_test(csv_cells_are_typed_by_their_column),
        cmocka_unit_test(a_list_is_one_whole_array),
        cmocka_unit_test(broken_records_are_refused_alone),
        cmocka_unit_test(a_wrong_header_ends_the_reading),
        cmocka_unit_test(unreadable_inputs_are_named),
        cmocka_unit_test(a_fifo_is_read_as_it_comes),
        cmocka_unit_test(a_fifo_is_kept_when_it_is_read_twice),
        cmocka_unit_test(models_that_are_passed_over_are_named_once),
        cmocka_unit_test(overrides_are_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
