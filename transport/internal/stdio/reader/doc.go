// Package reader reads the lines of a stdio server, and decides which goroutine reads.
//
// # Who reads when
//
// One goroutine at a time reads stdout. A caller that is alone reads its answer for itself:
// that saves two goroutine switches for each call. An idle server has no goroutine at all.
//
//	state     who reads                       begins when
//	Looping   a goroutine of the Reader,      Start; there is something to read while Watching;
//	          until the stream has ended      a leader stops and leaves something to do
//	Leading   the caller of the only call,    a call begins while Watching
//	          the leader
//	Watching  none; the poller waits        nothing is in flight, and nothing is left to read
//	Stopped   no one begins to read           Stop
//
//	state     event                                                    next state
//	Looping   no call is in flight, and there is nothing to read       Watching
//	Leading   the leader is answered, and nothing is left to do        Watching
//	Leading   the leader is answered; other calls are in flight,
//	          or more has arrived than the answer                      Looping
//	Leading   the leader is given up, and nothing is left to do        Watching
//	Leading   the leader stops before its answer                       Looping
//	Watching  stdout is readable, or Wake                              Looping
//	Watching  Begin, of a call whose caller can read                   Leading
//	any       Stop                                                     Stopped
//
// Calls that begin while another goroutine reads wait for their answers. So do calls that
// want progress reports. Streams do not count as calls: they stay open as long as the session.
// So a caller that is alone reads for itself. If 64 callers begin together without a reader,
// the first one leads until it has its answer, and the goroutine reads the others.
//
// Who is woken: for each answer only its caller, by the channel of its request
// (stdio/call.go). A leader needs no wake-up, as its own read returns. Without a reader, the
// poller that all servers share calls Wake.
//
// The goroutine stays although nothing is in flight
//
//   - until AllowIdle, because the go-sdk waits for the answers of the handshake;
//   - for up to 10 ms, until the next call, and that up to 32 times, after several calls were
//     in flight or a leader stopped early: callers who come and go would hand the reading
//     back and forth;
//   - within a line that holds reserved memory, or that is skipped;
//   - always, where stdout cannot be watched: on other systems than Linux, in memory.
//
// # What a leader reads
//
// A leader handles short responses and nothing else. Everything that may take long, or that
// others see, is left to the goroutine: other messages, large lines, lines that are not
// messages, the end of the stream. The leader then waits for its answer as other callers do.
// While it reads it also serves calls that begin meanwhile, until its own is answered.
//
// The read deadline of stdout interrupts a goroutine that reads, as does closing stdout. No goroutine
// sets the deadline when a context ends. So a leader whose context may be canceled reads until
// 1 ms after Begin at most, then hands over to the goroutine, and only then looks at its
// context. When a timeout or the end of the session fails the call of a leader, GiveUp sets the
// deadline to the past.
//
// # Memory
//
// A waiting Reader holds no buffer, if stdout is a pipe of Unix. A line of
// jsonrpc.LargeMessage bytes or more is read within Options.Buffer: Limits.MaxBufferBytes of
// the server, and the limit of the client. The buffer doubles up to Options.MaxLine and a
// little more; while it grows, the smaller one is held, too, and not counted.
//
// A line that is longer than MaxLine, or for which no memory becomes free, is held up to that
// point. Then the buffer is dropped, the rest is read into a small one, and only the two ends
// of the line are kept (jsonrpc.EdgeSize), for Handler.ReceiveSkipped. What was reserved for
// the line stays reserved until the next line begins.
//
// # Where to start reading
//
//	reader.go  the states, and the verbs that change them
//	lines.go   lines from a stream, in bounded memory
package reader
