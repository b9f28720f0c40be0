/* files.h - files that a test writes, with the directories above them; a step that fails fails the
 * test.
 */
#ifndef KILN_TEST_FILES_H
#define KILN_TEST_FILES_H

#include <stddef.h>

void kiln_test_write(const char *path, const char *text);
void kiln_test_write_bytes(const char *path, const void *bytes, size_t len);

#endif
