package tasktext

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/task"
)

// The words of one generation become those of the other, and the id of the server is nowhere but in
// results, which are data.
func TestTaskText(t *testing.T) {
	const id = "secret-1"
	legacy, modern := Text{Sealed: "S", ID: id}, Text{Modern: true, Sealed: "S", ID: id}
	const failed = `{"resultType":"complete","taskId":"secret-1","status":"failed","statusMessage":"secret-1 is lost","ttlMs":1,"pollIntervalMs":2,"x":{"y":1},"error":{"code":1,"message":"no secret-1"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"secret-1"},"a":1}}`
	for _, row := range []struct{ name, got, want string }{
		{"a task for a client since 2026-07-28", string(modern.State([]byte(failed), nil, nil)),
			`{"resultType":"complete","taskId":"S","status":"failed","statusMessage":"S is lost","ttlMs":1,"pollIntervalMs":2,"x":{"y":1},"error":{"code":1,"message":"no S"},"_meta":{"a":1}}`},
		{"a task for a client of 2025-11-25", string(legacy.State([]byte(failed), nil, nil)),
			`{"taskId":"S","status":"failed","statusMessage":"S is lost","ttl":1,"pollInterval":2,"x":{"y":1},"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"S"}}}`},
		{"a notification", string(modern.Notice([]byte(failed), false)),
			`{"taskId":"S","status":"failed","statusMessage":"S is lost","ttlMs":1,"pollIntervalMs":2,"x":{"y":1}}`},
		{"without a ttl", string(modern.State([]byte(`{"taskId":"secret-1","status":"working"}`), nil, nil)), `{"resultType":"complete","taskId":"S","status":"working","ttlMs":null}`},
		{"a task of 2025-11-25 that is made", string(modern.Created([]byte(`{"task":{"taskId":"secret-1","status":"working","ttl":5},"_meta":{"m":1}}`))),
			`{"resultType":"task","taskId":"S","status":"working","ttlMs":5,"_meta":{"m":1}}`},
		{"a task since 2026-07-28 that is made", string(legacy.Created([]byte(`{"resultType":"task","taskId":"secret-1","status":"working","ttlMs":5}`))),
			`{"task":{"taskId":"S","status":"working","ttl":5}}`},
		{"an id that is no secret", string(Text{Modern: true, Sealed: "S", ID: "1"}.State([]byte(`{"taskId":"1","status":"working","statusMessage":"1 of 1","ttlMs":1}`), nil, nil)),
			`{"resultType":"complete","taskId":"S","status":"working","statusMessage":"1 of 1","ttlMs":1}`},
		{"a result", string(modern.Result([]byte(`{"content":[{"text":"secret-1"}]}`))), `{"content":[{"text":"secret-1"}]}`},
		{"a result of 2025-11-25", string(legacy.Result([]byte(`{"resultType":"complete","content":[]}`))),
			`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"S"}}}`},
		{"a result of another type", string(legacy.Result([]byte(`7`))), `7`},
	} {
		require.Equal(t, row.want, row.got, row.name)
	}
}

// What a server says about a task passes as it is, but for the id, in whatever order and however odd.
func FuzzTaskText(f *testing.F) {
	for _, seed := range []string{
		`{"resultType":"task","taskId":"secret-id","status":"working","ttlMs":1,"x":[1,"secret-id"]}`,
		`{"task":{"taskId":"secret-id","status":"completed","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"secret-id"}}},"_meta":{"a":1}}`,
		`{"taskId":"secret-id","status":"failed","error":{"code":1,"message":"no secret-id"},"statusMessage":"secret-id"}`,
		`{"taskId":"secret-id","taskId":"secret-id","status":"input_required","inputRequests":{"k":{}},"result":{"_meta":null}}`,
		`{"taskId":"secret-id","status":"working","ttl":{},"ttlMs":[],"task":{"a":1}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := task.Read([]byte(text))
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		for _, modern := range []bool{false, true} {
			x := Text{Modern: modern, Sealed: "sealed", ID: read.ID}
			for _, made := range []json.RawMessage{x.Created([]byte(text)), x.State([]byte(text), nil, nil), x.Notice([]byte(text), true), x.Result([]byte(text))} {
				if !json.Valid(made) {
					t.Fatalf("%s became %s", text, made)
				}
			}
			if again, err := task.Read(x.State([]byte(text), nil, nil)); err == nil && again.ID != "sealed" {
				t.Fatalf("%s names %q", text, again.ID)
			}
		}
	})
}
