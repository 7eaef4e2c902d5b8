package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// tasker is a client over HTTP that follows tasks, or does not.
type tasker struct {
	*peer
	modern  bool
	declare string // its capabilities
	id      int
}

const modernTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// newTasker opens a session of 2025-11-25, or needs none.
func newTasker(t *testing.T, url string, modern bool, declare string, header ...string) *tasker {
	t.Helper()
	c := &tasker{peer: newPeer(t, url), modern: modern, declare: declare}
	for i := 0; i+1 < len(header); i += 2 {
		c.header.Set(header[i], header[i+1])
	}
	if modern {
		return c
	}
	c.initializeWith("2025-11-25", declare)
	return c
}

// follower opens a client that follows tasks.
func follower(t *testing.T, url string, modern bool, header ...string) *tasker {
	t.Helper()
	if modern {
		return newTasker(t, url, true, modernTasks, header...)
	}
	return newTasker(t, url, false, `{"elicitation":{},"tasks":{}}`, header...)
}

// open sends a request, and returns the stream, or the one message, of the answer.
func (c *tasker) open(ctx context.Context, method, params string) (status int, next func() (json.RawMessage, bool)) {
	c.t.Helper()
	c.id++
	header := []string{versionHeader, "2025-11-25"}
	if c.modern {
		var named struct{ Name, TaskID string }
		require.NoError(c.t, json.Unmarshal([]byte(params), &named))
		header = []string{versionHeader, modernVersion, methodHeader, method, nameHeader, named.Name + named.TaskID}
		meta := `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + c.declare
		if strings.Contains(params, `"_meta":{`) {
			params = strings.Replace(params, `"_meta":{`, `"_meta":`+meta+`,`, 1)
		} else {
			params = strings.TrimSuffix(params, "}") + `,"_meta":` + meta + `}}`
			params = strings.Replace(params, "{,", "{", 1)
		}
	}
	response := c.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":`+strconv.Itoa(c.id)+`,"method":"`+method+`","params":`+params+`}`, header...)
	body := bufio.NewReader(response.Body)
	if response.Header.Get("Content-Type") == "text/event-stream" {
		stream := events{c.t, body, nil}
		return response.StatusCode, func() (json.RawMessage, bool) {
			_, data, ok := stream.next()
			return json.RawMessage(data), ok
		}
	}
	return response.StatusCode, func() (m json.RawMessage, ok bool) {
		err := json.NewDecoder(body).Decode(&m)
		return m, err == nil
	}
}

// answer is the answer to a request.
type answer struct {
	Result json.RawMessage
	Error  *jsonrpc.Error
}

// ask sends a request, and returns its answer. Other messages must not come.
func (c *tasker) ask(method, params string) answer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	_, next := c.open(ctx, method, params)
	m, ok := next()
	require.True(c.t, ok, "%s %s", method, params)
	var a answer
	require.NoError(c.t, json.Unmarshal(m, &a), "%s", m)
	require.True(c.t, a.Result != nil || a.Error != nil, "%s", m)
	return a
}

// job calls the tool "job" of the server "s" so that a task may be made of it.
func (c *tasker) job(key string) answer { return c.jobAt("s__job", key) }

func (c *tasker) jobAt(tool, key string) answer {
	c.t.Helper()
	params := `{"name":"` + tool + `","arguments":{"key":"` + key + `"}`
	if !c.modern {
		params += `,"task":{"ttl":60000}`
	}
	return c.ask("tools/call", params+"}")
}

// begin calls the tool, and returns the id of the task.
func (c *tasker) begin(key string) string { return c.beginAt("s__job", key) }

func (c *tasker) beginAt(tool, key string) string {
	c.t.Helper()
	a := c.jobAt(tool, key)
	require.Nil(c.t, a.Error)
	require.True(c.t, task.Is(a.Result, c.modern), "%s", a.Result)
	made, err := task.Read(a.Result)
	require.NoError(c.t, err)
	return made.ID
}

func about(id string) string { return `{"taskId":"` + id + `"}` }

// get asks for a task.
func (c *tasker) get(id string) task.Task {
	c.t.Helper()
	a := c.ask("tasks/get", about(id))
	require.Nil(c.t, a.Error, "%+v", a.Error)
	got, err := task.Read(a.Result)
	require.NoError(c.t, err)
	require.Equal(c.t, id, got.ID)
	return got
}

// await asks for a task until it has a status.
func (c *tasker) await(id string, want task.Status) task.Task {
	c.t.Helper()
	for end := time.Now().Add(patience); ; {
		got := c.get(id)
		if got.Status == want {
			return got
		}
		require.False(c.t, got.Status.Final(), "%s", got.Status)
		require.True(c.t, time.Now().Before(end), "%s", got.Status)
		time.Sleep(5 * time.Millisecond)
	}
}

// outcome is the result of a call whose task has completed.
func (c *tasker) outcome(id string) json.RawMessage {
	c.t.Helper()
	if got := c.await(id, task.Completed); c.modern {
		return got.Result
	}
	a := c.ask("tasks/result", about(id))
	require.Nil(c.t, a.Error, "%+v", a.Error)
	return a.Result
}

// jobServer makes a task of each call of its tool "job".
func jobServer(version string, def mcptest.TaskDef, faults ...mcptest.Fault) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond),
		InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{version}, Faults: faults,
			Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "count", Task: &def})})}
}

// overTasks runs f for all pairs of generations: of the client, and of the server.
func overTasks(t *testing.T, def mcptest.TaskDef, f func(t *testing.T, c *facade.Client, url string, modern, modernServer bool), opts ...Option) {
	t.Helper()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, modern := range []bool{false, true} {
			name := "client of 2025-11-25, server of " + version
			if modern {
				name = "client of 2026-07-28, server of " + version
			}
			t.Run(name, func(t *testing.T) {
				c := newClientWith(t, []facade.Option{facade.WithDeclared(facade.Declared{Elicitation: true})}, jobServer(version, def))
				_, url := serveHTTP(t, c, opts...)
				f(t, c, url, modern, version == modernVersion)
			})
		}
	}
}

// upstreamID is found in every id of a task of mcptest.
const upstreamID = "task-"

// A client that follows tasks gets the task that a server makes of its call, in the words of its own
// generation, and its result.
func TestTasks(t *testing.T) {
	overTasks(t, mcptest.TaskDef{Takes: 50 * time.Millisecond, Poll: 10 * time.Millisecond, TTL: time.Hour}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern)
		a := p.job("x")
		require.Nil(t, a.Error)
		made := string(a.Result)
		require.NotContains(t, made, upstreamID)
		if modern {
			require.Contains(t, made, `"resultType":"task"`)
			require.Contains(t, made, `"ttlMs":3600000`)
			require.Contains(t, made, `"pollIntervalMs":10`)
			require.NotContains(t, made, `"ttl":`)
		} else {
			require.True(t, strings.HasPrefix(made, `{"task":{`), made)
			require.Contains(t, made, `"ttl":3600000`)
			require.Contains(t, made, `"pollInterval":10`)
			require.NotContains(t, made, `Ms"`)
		}
		said, err := task.Read(a.Result)
		require.NoError(t, err)
		result := string(p.outcome(said.ID))
		require.Contains(t, result, `"structuredContent":{"executions":1,"key":"x"}`)
		require.Equal(t, !modern, strings.Contains(result, `"io.modelcontextprotocol/related-task":{"taskId":"`+said.ID+`"}`), result)
		require.NotContains(t, result, upstreamID)
	})
}

// The error of a task that has failed is that of the call.
func TestTasks_failed(t *testing.T) {
	overTasks(t, mcptest.TaskDef{Fail: "the disk is full"}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern)
		id := p.begin("x")
		got := p.await(id, task.Failed)
		if modern {
			require.JSONEq(t, `{"code":-32603,"message":"the disk is full"}`, string(got.Failure))
			return
		}
		a := p.ask("tasks/result", about(id))
		require.Equal(t, int64(-32603), a.Error.Code)
		require.Equal(t, "the disk is full", a.Error.Message)
	})
}

// A task is canceled at its server. What has ended cannot be canceled in 2025-11-25, and is
// acknowledged since 2026-07-28.
func TestTasks_cancel(t *testing.T) {
	overTasks(t, mcptest.TaskDef{Takes: time.Hour}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern)
		id := p.begin("x")
		a := p.ask("tasks/cancel", about(id))
		require.Nil(t, a.Error)
		if modern {
			require.JSONEq(t, `{"resultType":"complete"}`, string(a.Result))
		} else {
			require.Contains(t, string(a.Result), `"status":"cancelled"`)
			require.NotContains(t, string(a.Result), upstreamID)
		}
		p.await(id, task.Cancelled)
	})
}

func TestTasks_cancel_after_the_end(t *testing.T) {
	overTasks(t, mcptest.TaskDef{}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern)
		id := p.begin("x")
		a := p.ask("tasks/cancel", about(id))
		if modern {
			require.JSONEq(t, `{"resultType":"complete"}`, string(a.Result))
		} else {
			require.Equal(t, int64(-32602), a.Error.Code, "%s", a.Result)
			require.Contains(t, a.Error.Message, "it is completed")
		}
	})
}

// oneQuestion is the input of a task that asks the user once.
const oneQuestion = `{"a":{"method":"elicitation/create","params":{"mode":"form","message":"A?","requestedSchema":{"type":"object","properties":{}}}}}`

// What a task asks for is asked of its client, in the way of the client's generation.
func TestTasks_input(t *testing.T) {
	key := sessionid.NewKey()
	overTasks(t, mcptest.TaskDef{Input: []byte(oneQuestion)}, func(t *testing.T, c *facade.Client, url string, modern, modernServer bool) {
		p := follower(t, url, modern)
		id := p.begin("x")
		if modern {
			got := p.await(id, task.InputRequired)
			key := "a"
			if modernServer {
				require.JSONEq(t, oneQuestion, string(got.Requests))
			} else {
				for string(got.Requests) == "{}" {
					got = p.get(id)
				}
				require.NoError(t, jsonscan.EachMember(got.Requests, func(name string, value []byte) error {
					key = name
					require.JSONEq(t, memberOf(t, []byte(oneQuestion), "a"), strings.Replace(string(value), `"_meta":{},`, "", 1))
					return nil
				}))
				require.Equal(t, string(got.Requests), string(p.get(id).Requests), "it is the same question")
			}
			a := p.ask("tasks/update", `{"taskId":"`+id+`","inputResponses":{"`+key+`":{"action":"decline"},"other":{}}}`)
			require.JSONEq(t, `{"resultType":"complete"}`, string(a.Result))
			require.Contains(t, string(p.outcome(id)), `"executions":1`)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, p.url = serveHTTP(t, c, WithSessionKey(key)) // it knows nothing else
		_, next := p.open(ctx, "tasks/result", about(id))
		m, ok := next()
		require.True(t, ok)
		var asked struct {
			ID     json.Number
			Method string
			Params json.RawMessage
		}
		require.NoError(t, json.Unmarshal(m, &asked))
		require.Equal(t, "elicitation/create", asked.Method, "%s", m)
		require.NotContains(t, string(m), upstreamID)
		if !modernServer {
			require.Equal(t, `{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}`, memberOf(t, asked.Params, "_meta"))
		}
		status, _ := p.post(`{"jsonrpc":"2.0","id":` + asked.ID.String() + `,"result":{"action":"decline"}}`)
		require.Equal(t, http.StatusAccepted, status)
		m, ok = next()
		require.True(t, ok)
		require.Contains(t, string(m), `"executions":1`)
	}, WithSessionKey(key))
}

// A server of 2026-07-28 is not told that it may make a task for a client that would not follow it:
// it answers at once.
func TestTasks_not_declared_to_the_server(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, jobServer(modernVersion, mcptest.TaskDef{Takes: time.Hour})))
	for key, declare := range map[string]string{"nothing": `{}`, "something": `{"sampling":{}}`, "others": `{"extensions":{"x/y":{}}}`} {
		a := newTasker(t, url, true, declare).ask("tools/call", `{"name":"s__job","arguments":{"key":"`+key+`"}}`)
		require.Contains(t, string(a.Result), `"executions":1`)
	}
}

// A client that does not follow tasks gets no task: a server of 2025-11-25 is asked for one that the
// gateway follows, and one of 2026-07-28 is not told that it may make one.
func TestTasks_client_without_tasks(t *testing.T) {
	overTasks(t, mcptest.TaskDef{Takes: 20 * time.Millisecond, Poll: 10 * time.Millisecond}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		for key, declare := range map[string]string{"nothing": `{}`, "something": `{"sampling":{}}`} {
			p := newTasker(t, url, modern, declare)
			a := p.ask("tools/call", `{"name":"s__job","arguments":{"key":"`+key+`"},"task":{}}`)
			require.Nil(t, a.Error, "%+v", a.Error)
			require.Contains(t, string(a.Result), `"executions":1`)
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				a = p.ask(method, `{"taskId":"x","inputResponses":{}}`)
				if !modern {
					require.Equal(t, int64(-32601), a.Error.Code)
					continue
				}
				require.Equal(t, int64(-32021), a.Error.Code)
				require.JSONEq(t, `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`, string(a.Error.Data))
			}
		}
	})
}

// What the gateway declares depends on the generation.
func TestTasks_declared(t *testing.T) {
	c := newClient(t)
	_, url := serveHTTP(t, c)
	a := newTasker(t, url, true, `{}`).ask("server/discover", "{}")
	require.Equal(t, `{"io.modelcontextprotocol/tasks":{}}`, memberOf(t, a.Result, "capabilities", "extensions"))
	require.Empty(t, memberOf(t, a.Result, "capabilities", "tasks"))
	for _, version := range legacyVersions {
		for _, declare := range []string{`{}`, `{"tasks":{}}`, `{"tasks":true}`} {
			p := newPeer(t, url)
			_, body := p.post(strings.Replace(initializeRequest(version), `"capabilities":{}`, `"capabilities":`+declare, 1))
			require.Empty(t, memberOf(t, []byte(body), "result", "capabilities", "extensions"))
			want := ""
			if version == tasksVersion && declare == `{"tasks":{}}` {
				want = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
			}
			require.Equal(t, want, memberOf(t, []byte(body), "result", "capabilities", "tasks"), version)
			require.NotEmpty(t, memberOf(t, []byte(body), "result", "capabilities", "tools"))
			require.NotEmpty(t, memberOf(t, []byte(body), "result", "serverInfo"))
		}
	}
}

// The methods that 2026-07-28 has no more are unknown there, and those that 2025-11-25 does not have.
func TestTasks_methods(t *testing.T) {
	c := newClient(t)
	_, url := serveHTTP(t, c)
	for method, modern := range map[string]bool{"tasks/result": true, "tasks/list": true, "tasks/update": false} {
		a := follower(t, url, modern).ask(method, `{"taskId":"x","inputResponses":{}}`)
		require.Equal(t, int64(-32601), a.Error.Code, method)
	}
	s := openRaw(t, Transport(c))
	for _, method := range []string{"tasks/result", "tasks/list"} {
		wire, ok := s.call(method, `{"taskId":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+modernTasks+`}}`).Error.(*jsonrpc.Error)
		require.True(t, ok)
		require.Equal(t, int64(-32601), wire.Code)
	}
}

// An older client may not ask for a task of a tool that cannot be one: it would not understand the
// result.
func TestTasks_of_a_tool_without(t *testing.T) {
	c := newClient(t, fixture("s", mcptest.Script{}))
	_, url := serveHTTP(t, c)
	a := follower(t, url, false).ask("tools/call", `{"name":"s__echo","arguments":{"text":"x"},"task":{}}`)
	require.Equal(t, int64(-32601), a.Error.Code)
	a = follower(t, url, true).ask("tools/call", `{"name":"s__echo","arguments":{"text":"x"},"task":{}}`)
	require.Contains(t, string(a.Result), `"x"`)
}

// Since 2026-07-28 what a task asks for goes to its client, so the server is told what that answers, and
// not what the host does.
func TestRounds_of_a_client_with_tasks(t *testing.T) {
	for declared, want := range map[string]bool{`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`: true, `{"extensions":{"x/y":{}}}`: false, `{"tasks":{}}`: false} {
		raw := json.RawMessage(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + declared + `}}`)
		p := readParams(t.Context(), "tools/list", raw)
		require.NoError(t, p.err)
		require.Equal(t, want, p.relays(), declared)
		require.Zero(t, p.declared)
	}
}

// Only a call has a key: what other requests say about one is ignored, so that a cancellation is carried out.
func TestReadParams_key_of_other_methods(t *testing.T) {
	raw := json.RawMessage(`{"requestId":7,"name":"x","_meta":{"` + KeyMeta + `":4711}}`)
	p := readParams(t.Context(), "notifications/cancelled", raw)
	require.NoError(t, p.err)
	require.EqualValues(t, 7, p.requestID)
	require.Error(t, readParams(t.Context(), "tools/call", raw).err)
}

// A tool that need not be called as a task becomes one for clients that follow it, if they ask for that
// in 2025-11-25.
func TestTasks_optional(t *testing.T) {
	overTasks(t, mcptest.TaskDef{Optional: true}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern)
		require.Contains(t, string(p.outcome(p.begin("x"))), `"executions":1`)
		if !modern {
			a := p.ask("tools/call", `{"name":"s__job","arguments":{"key":"y"}}`)
			require.Contains(t, string(a.Result), `"executions":1`)
		}
	})
}

// The header that names the task must be true.
func TestTasks_header(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, jobServer(modernVersion, mcptest.TaskDef{Takes: time.Hour})))
	p := follower(t, url, true)
	id := p.begin("x")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"taskId":"` + id + `","inputResponses":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + modernTasks + `}}}`
		for _, name := range []string{"", "other"} {
			status, text := p.post(body, versionHeader, modernVersion, methodHeader, method, nameHeader, name)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, text, "-32020")
		}
		status, text := p.post(body, versionHeader, modernVersion, methodHeader, method, nameHeader, id)
		require.Equal(t, http.StatusOK, status, text)
	}
}

// All versions with all: who follows tasks gets one, whatever the server speaks, and everybody else the
// result.
func TestTasks_versions(t *testing.T) {
	for _, upstream := range supportedVersions() {
		c := newClient(t, jobServer(upstream, mcptest.TaskDef{Takes: 10 * time.Millisecond, Poll: 10 * time.Millisecond}))
		status, _ := c.ServerStatus("s")
		require.Equal(t, upstream, status.Session.ProtocolVersion)
		_, url := serveHTTP(t, c)
		for _, downstream := range supportedVersions() {
			t.Run("client of "+downstream+", server of "+upstream, func(t *testing.T) {
				var result string
				if downstream >= tasksVersion {
					p := follower(t, url, downstream == modernVersion)
					result = string(p.outcome(p.begin(downstream)))
				} else {
					p := newPeer(t, url)
					p.initialize(downstream)
					_, result = p.post(toolCallOf(1, "s__job", `{"key":"`+downstream+`"}`))
					status, text := p.post(`{"jsonrpc":"2.0","id":2,"method":"tasks/list"}`)
					require.Equal(t, http.StatusOK, status)
					require.Contains(t, text, "-32601")
				}
				require.Contains(t, result, `"executions":1`)
			})
		}
	}
}

// The result of a task is shortened as that of a call is, and its rest can be read.
func TestTasks_long_result(t *testing.T) {
	overTasks(t, mcptest.TaskDef{}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern)
		result := p.outcome(p.begin("k"))
		_, uri, linked := strings.Cut(string(result), "mcpvisor://result/")
		require.True(t, linked, "%s", result)
		uri, _, _ = strings.Cut(uri, `"`)
		a := follower(t, url, false).ask("resources/read", `{"uri":"mcpvisor://result/`+uri+`"}`)
		require.Nil(t, a.Error)
		require.Contains(t, string(a.Result), `"text":"{\"executions\":1,\"key\":\"k\"}"`)
	}, WithSettings(newSettings(t, Settings{MaxResultBytes: 3})))
}

// What a client sees of the tasks of hostile servers, in both generations: each row of test/hostile
// about tasks has one here.
func TestTasks_of_hostile_servers(t *testing.T) {
	const unreadable, noState, gone = "gave no valid answer", "has not said how the task is (protocol)", "does not know the task"
	rows := map[string]string{ // a status, or a part of an error
		"task/never-ends":            "working",
		"task/no-id":                 unreadable, // the call
		"task/other-id":              noState,
		"task/back":                  "completed",
		"task/no-result":             "completed",
		"task/key-twice":             "input_required",
		"task/times-negative":        "completed",
		"task/ttl-over":              "completed",
		"task/forgotten":             gone,
		"task/oversize":              noState,
		"task/inputs-endless":        "input_required",
		"task/key-long":              "input_required",
		"task/update-refused":        "input_required",
		"task/many":                  noState,
		"task/told":                  "completed",
		"task/told-junk":             "completed",
		"task/back-legacy":           "completed",
		"task/no-result-legacy":      "no result of ***",
		"task/task-in-result-legacy": noState,
		"task/notices":               "completed",
	}
	for _, m := range hostile.Misbehaviours() {
		if m.Stage() != "task" {
			continue
		}
		want, ok := rows[m.Name]
		require.True(t, ok, "%s has no row", m.Name)
		delete(rows, m.Name)
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s modern %t", m.Name, modern), func(t *testing.T) {
				t.Parallel()
				server, ok := m.InMemory()
				require.True(t, ok)
				spec := mcpvisor.ServerSpec{Name: "h", InMemory: server, Limits: mcpvisor.Limits{MaxMessageBytes: 1 << 20}}
				if strings.HasSuffix(m.Name, "-legacy") {
					spec.Era = mcpvisor.EraLegacy
				}
				c := newClient(t, spec, fixture("good", mcptest.Script{}))
				_, url := serveHTTP(t, c)
				p := follower(t, url, modern)
				params := `{"name":"h__` + hostile.BadTool + `","arguments":{}`
				if legacy := strings.HasSuffix(m.Name, "-legacy"); !modern && legacy {
					params += `,"task":{}`
				} else if !modern {
					t.Skip("its tools do not say that they may be tasks, so the client does not ask for one")
				}
				a := p.ask("tools/call", params+"}")
				require.NotContains(t, string(a.Result), hostile.TaskID)
				seen := fmt.Sprintf("%s %+v", a.Result, a.Error)
				if task.Is(a.Result, modern) {
					made, err := task.Read(a.Result)
					require.NoError(t, err)
					seen = lookAt(t, p, made.ID, want)
				}
				require.Contains(t, seen, want)
				require.NotContains(t, seen, hostile.TaskID)
				require.Contains(t, string(p.ask("tools/call", `{"name":"good__echo","arguments":{"text":"fine"}}`).Result), "fine")
			})
		}
	}
	require.Empty(t, rows, "rows of no server")
}

// lookAt asks for a task ten times, or until what is wanted is seen, and returns what was seen last.
func lookAt(t *testing.T, p *tasker, id, want string) (seen string) {
	t.Helper()
	for n := 0; n < 10 && (n == 0 || !strings.Contains(seen, want)); n++ {
		a := p.ask("tasks/get", about(id))
		if seen = string(a.Result); a.Error != nil {
			seen = a.Error.Error() + string(a.Error.Data)
		}
		require.NotContains(t, seen, hostile.TaskID)
		if p.modern {
			b := p.ask("tasks/update", `{"taskId":"`+id+`","inputResponses":{"k":{"action":"decline"}}}`)
			require.NotContains(t, fmt.Sprintf("%s %+v", b.Result, b.Error), hostile.TaskID)
		} else if strings.Contains(seen, "completed") {
			b := p.ask("tasks/result", about(id))
			seen += fmt.Sprintf("%s %+v", b.Result, b.Error)
		}
	}
	return seen
}

// A client that makes thousands of tasks gets as many as it may have, asks with ids that it has made
// up and with those that it has, and no other principal notices.
func TestTasks_of_a_hostile_client(t *testing.T) {
	m, ok := hostile.MisbehaviourNamed("task/many")
	require.True(t, ok)
	server, ok := m.InMemory()
	require.True(t, ok)
	c := newClient(t, mcpvisor.ServerSpec{Name: "h", InMemory: server})
	s, url := serveHTTP(t, c, withNames("evil", "good"))
	const callers = 8
	tasks := sized(hostile.ManyTasks, 2_000)
	var made, refused atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []string
	for range callers {
		p := follower(t, url, true, "Authorization", "Bearer evil")
		all.Go(func() {
			for range tasks / callers {
				switch a := p.ask("tools/call", `{"name":"h__`+hostile.BadTool+`"}`); {
				case a.Error == nil:
					made.Add(1)
					read, _ := task.Read(a.Result)
					mu.Lock()
					ids = append(ids, read.ID)
					mu.Unlock()
				case a.Error.Code == message.CodeBusy:
					refused.Add(1)
				default:
					t.Errorf("%+v", a.Error)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1000, made.Load())
	require.EqualValues(t, tasks-1000, refused.Load())
	evil := follower(t, url, true, "Authorization", "Bearer evil")
	for i := range 1000 {
		a := evil.ask("tasks/get", about(fmt.Sprintf("made-up-%d", i)))
		require.Equal(t, int64(-32602), a.Error.Code)
	}
	for range 20 { // the same id again and again is no new task
		evil.ask("tasks/get", about(ids[0]))
	}
	good := follower(t, url, true, "Authorization", "Bearer good")
	began := time.Now()
	a := good.ask("tools/call", `{"name":"h__`+hostile.BadTool+`"}`)
	require.Nil(t, a.Error)
	t.Logf("a call of another principal took %v", time.Since(began))
	require.Equal(t, int64(-32602), good.ask("tasks/get", about(ids[0])).Error.Code)
	require.Len(t, s.gateway.tasks.List("evil", ""), 1000)
	require.Len(t, s.gateway.tasks.List("good", ""), 1)
}

// A server that gives the id of a task to the call of another client after its end: the first client gets
// neither the result of the other one, nor cancels or answers its task.
func TestTasks_whose_id_is_given_to_another_client(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern clients %t", modern), func(t *testing.T) {
			var mu sync.Mutex
			var seen []string
			c := newClient(t, taskServer(func(m *rawtest.Message) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, m.Method)
			}))
			_, url := serveHTTP(t, c, withNames("alice", "bob"))
			alice, bob := follower(t, url, modern, "Authorization", "Bearer alice"), follower(t, url, modern, "Authorization", "Bearer bob")
			lost := alice.beginAt("a__x", "x")
			require.NoError(t, c.Restart(t.Context(), "a"))
			require.NoError(t, c.WaitReady(t.Context(), "a"))
			own := bob.beginAt("a__x", "x")
			mu.Lock()
			seen = nil
			mu.Unlock()
			methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
			if modern {
				methods[2] = "tasks/update"
			}
			for _, method := range methods {
				a := alice.ask(method, `{"taskId":"`+lost+`","inputResponses":{"a":{"action":"accept"}}}`)
				require.NotNil(t, a.Error, "%s: %s", method, a.Result)
				require.NotContains(t, a.Error.Message, "t1")
			}
			mu.Lock()
			for _, method := range seen {
				require.NotContains(t, []string{"tasks/cancel", "tasks/result", "tasks/update"}, method, "it is about the task of bob")
			}
			mu.Unlock()
			require.Contains(t, string(bob.outcome(own)), "of incarnation 2")
		})
	}
}
