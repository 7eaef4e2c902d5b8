//go:build real

package real

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The role shuffles runs a server, whose command is in the variable as JSON, and writes what it says in another order.
const (
	shuffles         = "shuffles"
	shufflesVariable = "MCPVISOR_REAL_SHUFFLES"
)

func init() { role.Register(shuffles, runShuffled) } //nolint:gochecknoinits // before mcptest.Main

func runShuffled() int {
	var command []string
	if err := json.Unmarshal([]byte(os.Getenv(shufflesVariable)), &command); err != nil {
		return 2
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 2
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); json.Valid(line) {
			line = []byte(testutil.Shuffled(string(shuffledLists(line))))
		}
		_, _ = os.Stdout.Write(append(line, '\n'))
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// shuffledLists writes the entries of a list, the value of one of these members of a result, in another order.
func shuffledLists(message []byte) []byte {
	return jsonscan.Edit(message, func(name string, result []byte) []byte {
		if name != "result" || result[0] != '{' {
			return result
		}
		return jsonscan.Edit(result, func(name string, list []byte) []byte {
			if list[0] != '[' || !strings.Contains(" tools prompts resources resourceTemplates ", " "+name+" ") {
				return list
			}
			var items [][]byte
			jsonscan.EachItem(list, func(item []byte) bool { items = append(items, item); return true })
			rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			return append(append([]byte("["), bytes.Join(items, []byte(","))...), ']')
		})
	})
}

// shuffled returns a server behind a program that writes what it says in another order.
func shuffled(t *testing.T, s *mcpvisor.Stdio) *mcpvisor.Stdio {
	t.Helper()
	command, err := json.Marshal(append([]string{s.Command}, s.Args...))
	require.NoError(t, err)
	behind := role.Stdio(shuffles, map[string]string{shufflesVariable: string(command)})
	behind.Dir = s.Dir
	for name, value := range s.Env {
		behind.Env[name] = value
	}
	return behind
}

// listsOf returns the four lists as a host of the gateway reads them, byte by byte.
func listsOf(t *testing.T, c *facade.Client) string {
	t.Helper()
	conn, err := gateway.Transport(c).Connect(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	var all strings.Builder
	for i, method := range []string{"initialize", "tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		id, err := jsonrpc.MakeID(float64(i))
		require.NoError(t, err)
		params := `{}`
		if i == 0 {
			params = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}`
		}
		require.NoError(t, conn.Write(t.Context(), &jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(params)}))
		for {
			message, err := conn.Read(t.Context())
			require.NotErrorIs(t, err, io.EOF)
			require.NoError(t, err)
			if answer, ok := message.(*jsonrpc.Response); ok {
				require.NoError(t, answer.Error, method)
				all.WriteString(method + " " + string(answer.Result) + "\n")
				break
			}
		}
	}
	return all.String()
}
