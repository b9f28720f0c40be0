// Sends prompts to a gallery over HTTP, and prints the addresses of the pictures.
//
//	TOKEN=... go run scripts/examples/gallery.go http://127.0.0.1:9480 BATCH < prompts.txt
//
// One prompt a line.  The gallery runs with --allow-enqueue, and TOKEN is that of its
// gallery_producer_token_file.  /v1/openapi.json describes all of it.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

type job struct {
	Prompt   string `json:"prompt"`
	CustomID string `json:"custom_id"`
}

type receipt struct {
	Sent         int `json:"sent"`
	RefusedLines []struct {
		Line    int    `json:"line"`
		Message string `json:"message"`
	} `json:"refused_lines"`
}

type page struct {
	Pictures []struct {
		Job    int64  `json:"job"`
		Prompt string `json:"prompt"`
		Files  []struct {
			URL string `json:"url"`
		} `json:"files"`
	} `json:"pictures"`
	Next *string `json:"next"`
}

// call sends one request and reads the answer into value.
func call(method, address string, body []byte, value any) error {
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	if body != nil {
		request.Header.Set("Content-Type", "application/jsonl")
	}
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s: %s %s", address, answer.Status, text)
	}
	return json.Unmarshal(text, value)
}

func run(base, batch string) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines) // a line a value
	prompts := bufio.NewScanner(os.Stdin)
	prompts.Buffer(nil, 1<<20) // a line may be longer than the scanner's 64 KiB
	for number := 1; prompts.Scan(); number++ {
		prompt := strings.TrimSpace(prompts.Text())
		if prompt == "" {
			continue
		}
		if err := encoder.Encode(job{prompt, fmt.Sprintf("line-%d", number)}); err != nil {
			return err
		}
	}
	if err := prompts.Err(); err != nil {
		return err
	}
	var sent receipt
	query := "batch=" + url.QueryEscape(batch)
	if err := call("POST", base+"/v1/batches?"+query, lines.Bytes(), &sent); err != nil {
		return err
	}
	for _, line := range sent.RefusedLines {
		fmt.Fprintf(os.Stderr, "line %d: %s\n", line.Line, line.Message)
	}
	for ended := false; !ended; time.Sleep(time.Second) {
		var state struct {
			Ended bool `json:"ended"`
		}
		if err := call("GET", base+"/v1/batches/"+url.PathEscape(batch), nil, &state); err != nil {
			return err
		}
		ended = state.Ended
	}
	for next := "/v1/pictures?" + query; next != ""; {
		var list page
		if err := call("GET", base+next, nil, &list); err != nil {
			return err
		}
		for _, picture := range list.Pictures {
			if len(picture.Files) == 0 { // the store has lost them
				continue
			}
			address := picture.Files[0].URL // of the largest file; a path, or an address in S3
			if strings.HasPrefix(address, "/") {
				address = base + address
			}
			fmt.Println(picture.Job, address, picture.Prompt)
		}
		next = ""
		if list.Next != nil {
			next = *list.Next
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gallery URL BATCH < prompts.txt")
		os.Exit(64)
	}
	if err := run(strings.TrimRight(os.Args[1], "/"), os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
