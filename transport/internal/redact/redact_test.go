package redact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

func redactor(secrets ...string) redact.Redactor {
	var list secret.List
	list.Add(secrets...)
	return redact.New(&list)
}

// redactorOfEnv redacts the secrets in one variable of an environment.
func redactorOfEnv(entry string) redact.Redactor {
	var list secret.List
	list.AddEnv([]string{entry})
	return redact.New(&list)
}

// A secret is found in plain text, in JSON, in fragments of JSON and in URLs.
func TestRedactor_forms_of_a_secret(t *testing.T) {
	r := redactor("abc/def\"ghi")
	for _, text := range []string{`abc/def"ghi`, `{"half": "abc/def\"ghi`, `{"half": "abc\/def\"ghi`} {
		require.NotContains(t, r.Text(text), "ghi", text)
	}
	for _, raw := range []string{`["\u0061bc/def\"ghi"]`, `{"a":[{"b":["\u0061bc\/def\"ghi"]}]}`, `{"\u0061bc\/def\"ghi":1}`} {
		require.NotContains(t, string(r.JSON([]byte(raw))), "ghi", raw)
	}
	require.JSONEq(t, `["\u0061"]`, string(r.JSON([]byte(`["\u0061"]`))))
	require.Equal(t, `{"a":"***","b":"***","c":1.5}`, string(redactor("1234567").JSON([]byte(`{"a":1234567.0,"b":1.234567e+06,"c":1.5}`))))

	r = redactorOfEnv("DATABASE=postgres://me:p%40ssword@host/db")
	for _, text := range []string{"p@ssword", "p%40ssword"} {
		require.Equal(t, "bad ***", r.Text("bad "+text))
	}
}

// A password can be percent-encoded in several ways. Servers repeat the spelling that they
// were given.
func TestRedactor_password_as_spelled_in_its_URL(t *testing.T) {
	for _, password := range []string{"p%40ss%20word", "p%2fssword", "p%61ssword"} {
		r := redactorOfEnv("DATABASE=postgres://me:" + password + "@host/db")
		require.NotContains(t, r.Text("cannot connect to postgres://me:"+password+"@host/db"), password)
	}
}

func TestRedactor_Error(t *testing.T) {
	r := redactor("canary-0815")
	require.NoError(t, r.Error(nil))
	require.Same(t, io.EOF, r.Error(io.EOF))
	redacted := r.Error(fmt.Errorf("bad key canary-0815: %w", io.EOF))
	require.EqualError(t, redacted, "bad key ***: EOF")
	require.NoError(t, errors.Unwrap(redacted), "the wrapped error holds the secret")
}

func TestRedactor_nil(t *testing.T) {
	require.Nil(t, redactor())
	var r redact.Redactor
	require.Equal(t, "text", r.Text("text"))
	require.Equal(t, "text", r.Prefix("text"))
	require.Same(t, io.EOF, r.Error(io.EOF))
	require.Equal(t, `"text"`, string(r.JSON([]byte(`"text"`))))
}

// Redacting a long error allocates a small multiple of its length, even if the error
// consists of many small elements.
func TestRedactor_JSON_memory(t *testing.T) {
	r := redactor("canary-0815")
	for name, part := range map[string]string{"numbers": `1,`, "objects": `{"a":{"b":[]}},`, "texts": `"text",`, "escapes": `"\u0061\n",`} {
		t.Run(name, func(t *testing.T) {
			raw := json.RawMessage(`[` + strings.Repeat(part, 2<<20/len(part)) + `"\u0063anary-0815","canary-0815"]`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			redacted := r.JSON(raw)
			runtime.ReadMemStats(&after)
			require.NotContains(t, string(redacted), "anary")
			require.True(t, json.Valid(redacted))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(14*len(raw))) // 12.3 under the race detector
		})
	}
}
