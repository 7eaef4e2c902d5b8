package mcptest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/fixture/junk"
)

func one(f Fault) Script { return Script{Faults: []Fault{f}} }

func TestActionExit_at_start(t *testing.T) {
	withRawClient(t, one(Fault{At: StageStart, Do: ActionExit, Code: 3}), func(c *rawClient) {
		var exit *ExitError
		require.ErrorAs(t, c.requireExit(), &exit)
		require.Equal(t, 3, exit.Code)
		require.Empty(t, c.line(), "stdout is closed")
	})
}

func TestActionDie_in_memory_returns_signal(t *testing.T) {
	withSession(t, one(Fault{At: StageCall, Do: ActionDie, Signal: "SIGTERM"}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		require.EqualError(t, c.requireExit(), "signal: TERM")
		require.Empty(t, c.line())
	})
}

func TestActionHang_leaves_one_request_unanswered(t *testing.T) {
	withSession(t, one(Fault{At: StageCall, Tool: "echo", Nth: 2, Do: ActionHang}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"first"}`)
		require.Equal(t, "first", c.result().Text)
		c.call(2, "echo", `{"text":"second"}`)
		c.requireNoOutput()
		c.call(3, "echo", `{"text":"third"}`)
		require.Equal(t, "third", c.result().Text)
	})
}

func TestActionHangAll_stops_reading(t *testing.T) {
	withSession(t, one(Fault{At: StageCall, Do: ActionHangAll}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		c.requireNoOutput()
		wrote := make(chan error, 1)
		go func() {
			_, err := c.stdin.Write([]byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"))
			wrote <- err
		}()
		synctest.Wait()
		require.Empty(t, wrote, "a server that stopped reading reads nothing")
		c.requireRunning()
		c.cancel(errors.New("over"))
		require.EqualError(t, c.requireExit(), "over")
		require.Error(t, <-wrote)
	})
}

func TestActionIgnoreShutdown_outlives_stdin(t *testing.T) {
	withRawClient(t, one(Fault{At: StageStdinClosed, Do: ActionIgnoreShutdown}), func(c *rawClient) {
		require.NoError(t, c.stdin.Close())
		c.requireRunning()
		c.cancel(context.Canceled)
		require.ErrorIs(t, c.requireExit(), context.Canceled)
	})
}

func TestStageStdinClosed_exit(t *testing.T) {
	withRawClient(t, one(Fault{At: StageStdinClosed, Do: ActionExit, Code: 7}), func(c *rawClient) {
		require.NoError(t, c.stdin.Close())
		require.EqualError(t, c.requireExit(), "exit status 7")
	})
}

func TestActionJunk_is_not_JSONRPC(t *testing.T) {
	withRawClient(t, one(Fault{At: StageStart, Do: ActionJunk, Count: len(junk.Kinds)}), func(c *rawClient) {
		synctest.Wait()
		for _, want := range junk.Kinds {
			require.Equal(t, want+"\n", c.line())
		}
		c.initialize()
	})
	withSession(t, one(Fault{At: StageAfter, Do: ActionJunk, Text: "done!"}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		require.Equal(t, "x", c.result().Text)
		require.Equal(t, "done!\n", c.line())
	})
}

func TestActionHalfLine(t *testing.T) {
	withSession(t, one(Fault{At: StageAnswer, Nth: 1, Do: ActionHalfLine}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		line := c.line()
		require.True(t, strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1`), line)
		require.False(t, strings.HasSuffix(line, "}\n"), line)
		c.requirePing(2)
	})
	withSession(t, one(Fault{At: StageCall, Do: ActionHalfLine}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		require.NotContains(t, c.line(), "}}")
		c.requirePing(2)
	})
}

func TestActionDie_in_the_middle_of_an_answer(t *testing.T) {
	s := Script{Faults: []Fault{
		{At: StageAnswer, Do: ActionStderrLine, Text: "panic: out of paper"},
		{At: StageAnswer, Do: ActionExit, Code: 2},
	}}
	withSession(t, s, func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		require.EqualError(t, c.requireExit(), "exit status 2")
		require.Equal(t, "panic: out of paper\n", c.stderr.String())
		line := c.line()
		require.NotEmpty(t, line)
		require.NotContains(t, line, "\n")
	})
}

func TestActionDelay_in_the_middle_of_an_answer(t *testing.T) {
	withSession(t, one(Fault{At: StageAnswer, Do: ActionDelay, Delay: time.Minute}), func(c *rawClient) {
		asked := time.Now()
		c.call(1, "echo", `{"text":"whole"}`)
		require.Equal(t, "whole", c.result().Text)
		require.Equal(t, time.Minute, time.Since(asked))
	})
}

func TestActionJunk_in_the_middle_of_an_answer(t *testing.T) {
	withSession(t, one(Fault{At: StageAnswer, Do: ActionJunk, Text: "LOG"}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		require.True(t, strings.HasSuffix(c.line(), "LOG\n"))
		require.True(t, strings.HasSuffix(c.line(), "}}\n"))
	})
}

func TestActionStderr(t *testing.T) {
	withRawClient(t, Script{Faults: []Fault{
		{At: StageInitialized, Do: ActionStderrLine, Text: "hello"},
		{At: StagePing, Do: ActionStderrFlood, Bytes: 12345},
	}}, func(c *rawClient) {
		c.initialize()
		synctest.Wait()
		require.Equal(t, "hello\n", c.stderr.String())
		c.requirePing(1)
		require.Len(t, c.stderr.String(), len("hello\n")+12345)
	})
}

func TestActionError(t *testing.T) {
	withSession(t, one(Fault{At: StageCall, Method: "resources/read", Do: ActionError, Code: -32001, Text: "not today"}), func(c *rawClient) {
		c.request(1, "resources/read", `{"uri":"mcptest://text"}`)
		require.Equal(t, &jsonrpc.Error{Code: -32001, Message: "not today"}, c.answer().Error)
		c.call(2, "echo", `{"text":"x"}`)
		require.Equal(t, "x", c.result().Text, "the fault applies to resources/read only")
	})
}

func TestActionOversize_is_a_valid_answer(t *testing.T) {
	for _, at := range []Fault{{At: StageCall}, {At: StagePing}} {
		at.Do, at.Bytes = ActionOversize, 1<<20
		withSession(t, one(at), func(c *rawClient) {
			if at.At == StagePing {
				c.request(1, "ping", `{}`)
			} else {
				c.call(1, "echo", `{"text":"x"}`)
			}
			a := c.result()
			require.InDelta(t, 1<<20, len(a.Result), 100)
		})
	}
}

func TestActionDelay_and_LateAnswer(t *testing.T) {
	s := Script{Faults: []Fault{
		{At: StageCall, Tool: "add", Do: ActionDelay, Delay: time.Hour},
		{At: StageCall, Tool: "echo", Do: ActionLateAnswer, Delay: 2 * time.Hour},
	}}
	withSession(t, s, func(c *rawClient) {
		asked := time.Now()
		c.call(1, "add", `{"a":1,"b":2}`)
		c.call(2, "add", `{"a":1,"b":2}`)
		c.call(3, "echo", `{"text":"late"}`)
		c.requirePing(4)
		require.Zero(t, time.Since(asked), "other requests do not wait")
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		require.JSONEq(t, "1", string(c.result().ID))
		require.Equal(t, time.Hour, time.Since(asked))
		require.Equal(t, "late", c.result().Text)
		require.Equal(t, 2*time.Hour, time.Since(asked))
		c.requireNoOutput()
	})
}

func TestActionFlood(t *testing.T) {
	withSession(t, one(Fault{At: StageAfter, Do: ActionFlood, Count: 500, Text: "notifications/tools/list_changed"}), func(c *rawClient) {
		c.call(1, "echo", `{"text":"x"}`)
		require.Equal(t, "x", c.result().Text)
		require.Equal(t, 500, strings.Count(c.drain(), `"method":"notifications/tools/list_changed"`))
	})
}

func TestActionCloseStdout_does_not_exit(t *testing.T) {
	withSession(t, one(Fault{At: StageInitialized, Do: ActionCloseStdout}), func(c *rawClient) {
		require.Empty(t, c.line(), "stdout ends")
		c.requireRunning()
	})
}

func TestFault_Starts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := InMemory(Script{Faults: []Fault{{At: StageStart, Starts: []int{1, 3}, Do: ActionExit, Code: 1}}})
		for start, dies := range []bool{1: true, 2: false, 3: true, 4: false} {
			if start == 0 {
				continue
			}
			c := startRaw(t, server.Serve)
			if !dies {
				c.initialize()
				c.call(1, "pid", `{}`)
				require.Contains(t, string(c.result().Result), `"start":`+string(rune('0'+start)))
				require.NoError(t, c.stdin.Close())
				require.NoError(t, c.requireExit())
				continue
			}
			require.EqualError(t, c.requireExit(), "exit status 1")
		}
	})
}

func TestScript_StartDelay(t *testing.T) {
	withRawClient(t, Script{StartDelay: time.Hour}, func(c *rawClient) {
		begun := time.Now()
		c.initialize()
		require.Equal(t, time.Hour, time.Since(begun))
	})
}
