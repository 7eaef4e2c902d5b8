package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The words of one generation become those of the other, and the id of the server is nowhere but in
// results, which are data.
func TestTaskText(t *testing.T) {
	const id = "secret-1"
	legacy, modern := taskText{sealed: "S", id: id}, taskText{modern: true, sealed: "S", id: id}
	const failed = `{"resultType":"complete","taskId":"secret-1","status":"failed","statusMessage":"secret-1 is lost","ttlMs":1,"pollIntervalMs":2,"x":{"y":1},"error":{"code":1,"message":"no secret-1"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"secret-1"},"a":1}}`
	for _, row := range []struct{ name, got, want string }{
		{"a task for a client since 2026-07-28", string(modern.state([]byte(failed), nil, nil)),
			`{"resultType":"complete","taskId":"S","status":"failed","statusMessage":"S is lost","ttlMs":1,"pollIntervalMs":2,"x":{"y":1},"error":{"code":1,"message":"no S"},"_meta":{"a":1}}`},
		{"a task for a client of 2025-11-25", string(legacy.state([]byte(failed), nil, nil)),
			`{"taskId":"S","status":"failed","statusMessage":"S is lost","ttl":1,"pollInterval":2,"x":{"y":1},"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"S"}}}`},
		{"a notification", string(modern.notice([]byte(failed), false)),
			`{"taskId":"S","status":"failed","statusMessage":"S is lost","ttlMs":1,"pollIntervalMs":2,"x":{"y":1}}`},
		{"without a ttl", string(modern.state([]byte(`{"taskId":"secret-1","status":"working"}`), nil, nil)), `{"resultType":"complete","taskId":"S","status":"working","ttlMs":null}`},
		{"a task of 2025-11-25 that is made", string(modern.created([]byte(`{"task":{"taskId":"secret-1","status":"working","ttl":5},"_meta":{"m":1}}`))),
			`{"resultType":"task","taskId":"S","status":"working","ttlMs":5,"_meta":{"m":1}}`},
		{"a task since 2026-07-28 that is made", string(legacy.created([]byte(`{"resultType":"task","taskId":"secret-1","status":"working","ttlMs":5}`))),
			`{"task":{"taskId":"S","status":"working","ttl":5}}`},
		{"an id that is no secret", string(taskText{modern: true, sealed: "S", id: "1"}.state([]byte(`{"taskId":"1","status":"working","statusMessage":"1 of 1","ttlMs":1}`), nil, nil)),
			`{"resultType":"complete","taskId":"S","status":"working","statusMessage":"1 of 1","ttlMs":1}`},
		{"a result", string(modern.result([]byte(`{"content":[{"text":"secret-1"}]}`))), `{"content":[{"text":"secret-1"}]}`},
		{"a result of 2025-11-25", string(legacy.result([]byte(`{"resultType":"complete","content":[]}`))),
			`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"S"}}}`},
		{"a result that is none", string(legacy.result([]byte(`7`))), `7`},
	} {
		require.Equal(t, row.want, row.got, row.name)
	}
}
