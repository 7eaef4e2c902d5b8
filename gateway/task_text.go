package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// taskText says to a client what a server has said about a task: in the words of the client's
// generation, with the sealed id in place of the server's. What it does not know passes as it is.
type taskText struct {
	modern     bool // the client speaks the extension since 2026-07-28
	sealed, id string
	notify     bool // it is a notification, whose _meta is the gateway's
	// shorten cuts a long result; nil if the text is none of a tool.
	shorten func(json.RawMessage) json.RawMessage
}

// The members whose names differ, since 2026-07-28 and in 2025-11-25.
var taskMembers = map[string][2]string{
	"ttlMs": {"ttlMs", "ttl"}, "ttl": {"ttlMs", "ttl"},
	"pollIntervalMs": {"pollIntervalMs", "pollInterval"}, "pollInterval": {"pollIntervalMs", "pollInterval"},
}

// relatedTask is the member of _meta that names a task, in 2025-11-25.
const relatedTask = "io.modelcontextprotocol/related-task"

// created is the answer to a tool call of which a task was made.
func (x taskText) created(text []byte) json.RawMessage {
	made, outer := text, []byte(nil)
	_ = jsonscan.EachMember(text, func(key string, value []byte) error { // task.Read has read it
		if key == "task" && value[0] == '{' {
			made, outer = value, text
		}
		return nil
	})
	rest := message.Object{}
	if outer != nil {
		_ = jsonscan.EachMember(outer, func(key string, value []byte) error {
			if key != "task" && key != "resultType" {
				rest.Add(key, x.meta(key, value))
			}
			return nil
		})
	}
	if x.modern {
		b := message.Object{}
		b.Add("resultType", []byte(`"task"`))
		x.addState(&b, made, false)
		b.AddAll(rest)
		return b.Close()
	}
	b, state := message.Object{}, message.Object{}
	x.addState(&state, made, false)
	b.Add("task", state.Close())
	b.AddAll(rest)
	return b.Close()
}

// state is the answer to tasks/get. For a client since 2026-07-28
// result and failure are what came of a task of 2025-11-25; nil for none.
func (x taskText) state(text []byte, result, failure json.RawMessage) json.RawMessage {
	b := message.Object{}
	if x.modern {
		b.Add("resultType", []byte(`"complete"`))
	}
	x.addState(&b, text, x.modern)
	if result != nil {
		b.Add("result", x.result(result))
	}
	if failure != nil {
		b.Add("error", failure)
	}
	return b.Close()
}

// notice are the params of a notification; with what came of the task, if detailed.
func (x taskText) notice(text []byte, detailed bool) json.RawMessage {
	var b message.Object
	x.notify = true
	x.addState(&b, text, detailed && x.modern)
	return b.Close()
}

// addState adds what a server says about a task; with what came of it, if detailed.
func (x taskText) addState(b *message.Object, text []byte, detailed bool) {
	hasTTL := false
	which := 1
	if x.modern {
		which = 0
	}
	_ = jsonscan.EachMember(text, func(key string, value []byte) error { // task.Read has read it
		if names, ok := taskMembers[key]; ok {
			hasTTL = hasTTL || names[0] == "ttlMs"
			b.Add(names[which], value)
			return nil
		}
		switch key {
		case "taskId":
			b.Add(key, message.JSON(x.sealed))
		case "resultType", "requestState", "task":
		case "statusMessage":
			b.Add(key, x.hide(value))
		case "result":
			if detailed {
				b.Add(key, x.result(value))
			}
		case "error", "inputRequests":
			if detailed {
				b.Add(key, x.hide(value))
			}
		default:
			if key != "_meta" || !x.notify {
				b.Add(key, x.meta(key, value))
			}
		}
		return nil
	})
	if !hasTTL {
		b.Add([]string{"ttlMs", "ttl"}[which], []byte("null"))
	}
}

// result is what came of a task: as it is, but for the id of the task in its _meta, which is for
// clients of 2025-11-25 only.
func (x taskText) result(raw json.RawMessage) json.RawMessage {
	raw = x.withTaskID(raw)
	if x.shorten != nil {
		raw = x.shorten(raw)
	}
	return raw
}

// withTaskID is a result in whose _meta the sealed id is in place of the server's.
func (x taskText) withTaskID(raw json.RawMessage) json.RawMessage {
	if x.modern && !bytes.Contains(raw, []byte(relatedTask)) {
		return raw
	}
	var b message.Object
	named := false
	err := jsonscan.EachMember(raw, func(key string, value []byte) error {
		if key == "resultType" && !x.modern {
			return nil
		}
		if key == "_meta" && value[0] == '{' {
			named = true
			value = x.metaObject(value)
		}
		b.Add(key, value)
		return nil
	})
	if err != nil { // no object: it is passed on as it is
		return raw
	}
	if !named && !x.modern {
		b.Add("_meta", x.metaObject([]byte("{}")))
	}
	return b.Close()
}

// meta is the value of a member of a task: _meta without the id of the server.
func (x taskText) meta(key string, value []byte) []byte {
	if key != "_meta" || value[0] != '{' || !bytes.Contains(value, []byte(relatedTask)) {
		return value
	}
	return x.metaObject(value)
}

// metaObject is a _meta with the sealed id for clients of 2025-11-25, and without an id for others.
func (x taskText) metaObject(meta []byte) json.RawMessage {
	var b message.Object
	_ = jsonscan.EachMember(meta, func(key string, value []byte) error {
		if key != relatedTask {
			b.Add(key, value)
		}
		return nil
	})
	if !x.modern {
		b.Add(relatedTask, task.Params(x.sealed))
	}
	return b.Close()
}

// minSecretTask is the length from which the id of a server is looked for in texts: a shorter one is
// no secret.
const minSecretTask = 6

// hide is a value of JSON in whose texts the id of the server is the sealed one.
func (x taskText) hide(value []byte) []byte {
	if len(x.id) < minSecretTask {
		return value
	}
	own := message.JSON(x.id)
	return bytes.ReplaceAll(value, own[1:len(own)-1], []byte(x.sealed))
}

// sealQuestion returns the params of a question of a server, in which a task is named by the id that the
// client knows. A task that it does not know is not named.
func (c *connection) sealQuestion(r facade.ServerRequest) json.RawMessage {
	if !bytes.Contains(r.Params, []byte(relatedTask)) {
		return bytes.Clone(r.Params)
	}
	var b message.Object
	_ = jsonscan.EachMember(r.Params, func(key string, value []byte) error { // the engine has read it
		if key == "_meta" && value[0] == '{' {
			x := taskText{modern: true}
			_ = jsonscan.EachMember(value, func(key string, value []byte) error {
				if key == relatedTask {
					x.sealed = c.tasks.sealedOf(c.owner, c.taskName(r.Server, task.ReadID(value)))
					x.modern = x.sealed == ""
				}
				return nil
			})
			value = x.metaObject(value)
		}
		b.Add(key, value)
		return nil
	})
	return b.Close()
}
