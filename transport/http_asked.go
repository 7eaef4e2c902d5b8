package transport

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// answerWait bounds the POST of an answer of ours. A server that does not take
// them has a connection busy for each.
const answerWait = 30 * time.Second

// heardMessage passes on a request or notification of the server's. call is the
// id of our request on whose way to an answer it came.
func (s *httpSession) heardMessage(text []byte, env *envelope, call int64) {
	if id, refused := broadRequest(env); refused != nil {
		if admitted, _ := s.owed.admit(id, len(text), call); admitted && !s.isModern() {
			s.refuse(id, refused)
		}
		return
	}
	if env.id == nil && refuseBroad(env.params) != nil {
		s.noise.junk.Add(1)
		return
	}
	message, err := jsonrpc.DecodeMessage(text)
	r, _ := message.(*jsonrpc.Request)
	if err != nil || r == nil || !wellFormed(r) { // the go-sdk would end the session over it, or the process
		s.noise.junk.Add(1)
		return
	}
	if s.onMessage != nil {
		s.onMessage(message)
	}
	switch {
	case s.isModern(): // where the go-sdk has no stream open to read it from
		s.answers.heard(r)
	case r.IsCall():
		s.admitRequest(r, text, call)
	case !s.inbox.put(text):
		s.noise.dropped.Add(1)
	}
}

// admitRequest passes a request of the server's on, or drops it: to refuse it
// would take one more connection.
func (s *httpSession) admitRequest(r *jsonrpc.Request, text []byte, call int64) {
	admitted, inUse := s.owed.admit(r.ID, len(text), call)
	switch {
	case inUse:
		s.noise.junk.Add(1)
	case !admitted:
		s.noise.dropped.Add(1)
	case !isForClients(r):
		s.refuse(r.ID, errNotForClients)
	case !s.inbox.put(text):
		s.owed.answer(r.ID)()
		s.noise.dropped.Add(1)
	}
}

// refuse answers a request that the go-sdk must not see.
func (s *httpSession) refuse(id jsonrpc.ID, why *jsonrpc.Error) {
	written := s.owed.answer(id)
	body, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Error: why})
	if err != nil {
		written()
		return
	}
	s.post(s.agreed.Load(), body, written)
}

// takeBack ends the questions that came with a call which has failed: nobody
// wants their answers. Servers rarely say so themselves.
func (s *httpSession) takeBack(call int64) {
	for _, id := range s.owed.of(call) {
		name, err := json.Marshal(id.Raw())
		if err != nil || !s.inbox.put(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, name)) {
			s.noise.dropped.Add(1)
		}
	}
}
