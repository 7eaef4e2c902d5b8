package schema_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/schema"
)

// update rewrites the golden files:
//
//	go test ./schema -update
var update = flag.Bool("update", false, "rewrite the golden files")

var formats = map[string]schema.Format{
	"openai": schema.OpenAI, "openai-responses": schema.OpenAIResponses, "anthropic": schema.Anthropic,
	"gemini": schema.Gemini, "ollama": schema.Ollama,
}

// tool returns a tool with an input schema.
func tool(server, name, description string, input any) mcpvisor.Tool {
	if text, ok := input.(string); ok {
		input = json.RawMessage(text)
	}
	return mcpvisor.Tool{Name: mcpvisor.Qualify(server, name), Server: server, OriginalName: name, Alias: mcpvisor.Alias(server, name),
		Definition: &mcp.Tool{Name: name, Description: description, InputSchema: input}}
}

// parts returns the three parts of a function of any provider.
func parts(t *testing.T, f map[string]any) (name, description string, parameters map[string]any) {
	t.Helper()
	if inner, ok := f["function"].(map[string]any); ok {
		f = inner
	}
	name, _ = f["name"].(string)
	description, _ = f["description"].(string)
	for _, key := range []string{"parameters", "input_schema", "parametersJsonSchema"} {
		if m, ok := f[key].(map[string]any); ok {
			parameters = m
		}
	}
	require.NotNil(t, parameters)
	return name, description, parameters
}

// catalogs reads the recorded catalogs. See test/real/record.
func catalogs(t *testing.T) map[string][]mcpvisor.Tool {
	t.Helper()
	files, err := filepath.Glob("testdata/catalogs/*.jsonl.gz")
	require.NoError(t, err)
	all := map[string][]mcpvisor.Tool{}
	for _, file := range files {
		server := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		lines := bufio.NewScanner(bytes.NewReader(unzipped(t, file)))
		lines.Buffer(nil, 10<<20)
		for lines.Scan() {
			var definition struct {
				Name, Description string
				InputSchema       json.RawMessage
			}
			require.NoError(t, json.Unmarshal(lines.Bytes(), &definition), file)
			all[server] = append(all[server], tool(server, definition.Name, definition.Description, definition.InputSchema))
		}
		require.NoError(t, lines.Err())
	}
	return all
}

func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(zip)
	require.NoError(t, err)
	return text
}

// checkGolden compares text with a golden file, which is zipped if its name says so. The
// error shows the first line that differs.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", "golden", file)
	if *update {
		data := []byte(got)
		if strings.HasSuffix(file, ".gz") {
			var out bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			_, err := zip.Write(data)
			require.NoError(t, err)
			require.NoError(t, zip.Close())
			data = out.Bytes()
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, data, 0o644))
		return
	}
	var want string
	if strings.HasSuffix(file, ".gz") {
		want = string(unzipped(t, file))
	} else {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		want = strings.ReplaceAll(string(data), "\r\n", "\n")
	}
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		require.Equal(t, w[i], g[i], "%s:%d; if the change is right: go test ./schema -update", file, i+1)
	}
	require.Len(t, g, len(w), "%s: lines", file)
}

// TestCatalogs: what real servers list becomes what each provider takes, and what was
// changed is noted.
func TestCatalogs(t *testing.T) {
	all := catalogs(t)
	require.GreaterOrEqual(t, len(all), 30, "recorded servers")
	servers := slices.Sorted(maps.Keys(all))
	for _, provider := range slices.Sorted(maps.Keys(formats)) {
		t.Run(provider, func(t *testing.T) {
			var functions, changes strings.Builder
			for _, server := range servers {
				list, notes := schema.List(all[server], formats[provider])
				for _, f := range list {
					name, description, parameters := parts(t, roundTrip(t, f))
					require.Empty(t, providerRules[provider].check(name, description, parameters), name)
					functions.Write(append(compact(t, f), '\n'))
				}
				for _, n := range notes {
					fmt.Fprintln(&changes, n)
				}
			}
			checkGolden(t, provider+".jsonl.gz", functions.String())
			checkGolden(t, provider+".notes.txt", changes.String())
		})
	}
}

// TestAwkward: schemas that servers really send, or that hostile ones can, each in the
// form of each provider.
func TestAwkward(t *testing.T) {
	for _, provider := range slices.Sorted(maps.Keys(formats)) {
		t.Run(provider, func(t *testing.T) {
			var out strings.Builder
			for _, a := range awkward() {
				f, notes := formats[provider](a)
				name, description, parameters := parts(t, roundTrip(t, f))
				require.Empty(t, providerRules[provider].check(name, description, parameters), a.Name)
				text, err := json.MarshalIndent(parameters, "", "  ")
				require.NoError(t, err)
				if len(text) > 4000 {
					text = append(text[:4000], "…"...)
				}
				fmt.Fprintf(&out, "== %s\n", a.OriginalName)
				for _, n := range notes {
					fmt.Fprintf(&out, "# %s\n", strings.TrimPrefix(n.String(), a.Name))
				}
				fmt.Fprintf(&out, "%s\n\n", text)
			}
			checkGolden(t, provider+".awkward.txt", out.String())
		})
	}
}

func compact(t *testing.T, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v))
	return bytes.TrimSpace(out.Bytes())
}

// roundTrip returns what a provider reads. It differs from v if v is not of plain values.
func roundTrip(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	var read map[string]any
	require.NoError(t, json.Unmarshal(compact(t, v), &read))
	require.Equal(t, v, read, "the values are plain")
	return read
}
