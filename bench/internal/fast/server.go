// Package fast is the minimal MCP server that the clients are measured with. It imports
// so little that a process of it starts in a few milliseconds.
package fast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Serve reads lines, finds their ids, and answers them. Its speed must not limit the
// clients that are compared. A modern server speaks 2026-07-28, others 2025-11-25.
func Serve(in io.Reader, out io.Writer, modern bool) error {
	r := bufio.NewReaderSize(in, 64<<10)
	w := bufio.NewWriterSize(out, 64<<10)
	blobs := map[int][]byte{}
	for {
		line, err := ReadLine(r)
		if err != nil {
			return err
		}
		if err := Answer(w, line, modern, blobs); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// ReadLine returns the next line of r, of any length. It is valid until the next read.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		long := bytes.Clone(line)
		for err == bufio.ErrBufferFull {
			line, err = r.ReadSlice('\n')
			long = append(long, line...)
		}
		return long, err
	}
	return line, err
}

var (
	textMark  = []byte(`"text":"`)
	sizeMark  = []byte(`"size":`)
	callMark  = []byte(`"tools/call"`)
	sleepMark = []byte(`"name":"sleep"`)
	idMark    = []byte(`"id":`)
)

// Answer writes the answer to one message, and nothing for a notification or a call of the
// tool "sleep". It keeps the texts of the tool "blob" in blobs, which is nil if there are
// no such calls.
func Answer(w io.Writer, line []byte, modern bool, blobs map[int][]byte) error {
	if bytes.Contains(line, callMark) {
		if bytes.Contains(line, sleepMark) {
			return nil
		}
		if i := bytes.Index(line, textMark); i >= 0 {
			text := line[i+len(textMark):]
			text = text[:bytes.IndexByte(text, '"')]
			_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`+"\n", idOf(line), text)
			return err
		}
		if i := bytes.Index(line, sizeMark); i >= 0 {
			digits := line[i+len(sizeMark):]
			end := 0
			for digits[end] >= '0' && digits[end] <= '9' {
				end++
			}
			n, err := strconv.Atoi(string(digits[:end]))
			if err != nil {
				return err
			}
			if blobs[n] == nil {
				blobs[n] = []byte(Blob(n))
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, idOf(line))
			_, _ = w.Write(blobs[n])
			_, err = io.WriteString(w, "\"}]}}\n")
			return err
		}
	}
	return answerSlow(w, line, modern)
}

func idOf(line []byte) []byte {
	i := bytes.Index(line, idMark)
	if i < 0 {
		return nil
	}
	id := bytes.TrimLeft(line[i+len(idMark):], " ")
	return id[:bytes.IndexAny(id, ",}")]
}

// answerSlow handles the requests that occur once in a session.
func answerSlow(w io.Writer, line []byte, modern bool) error {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Cursor string `json:"cursor"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return err
	}
	if len(q.ID) == 0 {
		return nil
	}
	body := `"error":{"code":-32601,"message":"method not found"}`
	switch {
	case q.Method == "initialize":
		body = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fast","version":"1"}}`
	case q.Method == "server/discover" && modern:
		body = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"fast","version":"1"},"ttlMs":0,"cacheScope":"private"}`
	case q.Method == "ping":
		body = `"result":{}`
	case q.Method == "tools/list":
		body = `"result":` + toolList()
	}
	_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", q.ID, body)
	return err
}

// toolList is the result of tools/list: echo, blob, sleep, and BENCH_TOOLS others.
var toolList = sync.OnceValue(func() string {
	many, _ := strconv.Atoi(os.Getenv("BENCH_TOOLS"))
	tools := []string{`{"name":"echo","inputSchema":{"type":"object"}}`, `{"name":"blob","inputSchema":{"type":"object"}}`,
		`{"name":"sleep","inputSchema":{"type":"object"}}`}
	for i := range many {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%06d","description":"One of many tools; this one reads a file and returns its content.",`+
			`"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"where the file is"},`+
			`"lines":{"type":"integer","minimum":1}},"required":["path"]}}`, i))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
})

// Blob is n bytes of text: words without escapes.
func Blob(n int) string {
	const words = "the quick brown fox jumps over the lazy dog and runs away; "
	return string(bytes.Repeat([]byte(words), n/len(words)+1)[:n])
}
