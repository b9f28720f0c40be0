"""The answer file of an OpenAI batch as a client reads it that has only OpenAI's page.

    openai_answers.py REQUESTS DIR

Checks DIR/answers.jsonl of an export against the requests, and prints "CUSTOM_ID STATUS PICTURES
CODE" of each answer, sorted.  Each line is {id, custom_id, response, error}; response is
{status_code, request_id, body} or null, error is {code, message} or null; the body is that of
/v1/images/generations, with "error" {message, type, param, code} where status_code is not 200.
"""
import json, os, sys, time
requests = {r["custom_id"]: r for r in map(json.loads, open(sys.argv[1], encoding="utf-8"))}
folder, lines = sys.argv[2], []
with open(f"{folder}/answers.jsonl", encoding="utf-8") as file:
    for text in file:
        assert text.endswith("\n"), "a line without its end"
        lines.append(json.loads(text))
ids = [line["id"] for line in lines]
assert len(set(ids)) == len(ids) and all(i.startswith("batch_req_") for i in ids), ids
assert len({line["custom_id"] for line in lines}) == len(lines), "a request is answered twice"
def error_of(error, keys):
    assert set(error) == keys and error["code"] and error["message"], error
    return error["code"]
found = []
for line in lines:
    assert set(line) == {"id", "custom_id", "response", "error"}, line
    assert (line["response"] is None) == (line["error"] is not None), line
    request, status, pictures, code = requests[line["custom_id"]], "-", 0, "-"
    if line["error"]:
        code = error_of(line["error"], {"code", "message"})
    else:
        assert set(line["response"]) == {"status_code", "request_id", "body"}, line
        status, body = line["response"]["status_code"], line["response"]["body"]
        assert type(status) is int and line["response"]["request_id"].startswith("req_"), line
        assert abs(time.time() - body["created"]) < 600 and body["size"] == request["body"]["size"], line
        pictures = len(body["data"])
        for picture in body["data"]:
            with open(os.path.join(folder, picture["url"]), "rb") as file:
                assert file.read(12)[8:] == b"WEBP" and body["output_format"] == "webp"
        if status == 200:
            assert "error" not in body and pictures == request["body"].get("n", 1), line
        else:
            code = error_of(body["error"], {"message", "type", "param", "code"})
            assert body["error"]["type"] == {400: "invalid_request_error", 500: "server_error"}[status], line
    found.append(f"{line['custom_id']} {status} {pictures} {code}")
print(*sorted(found), sep="\n")
