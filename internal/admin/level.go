package admin

import (
	"net/http"
	"time"

	"github.com/comporta/comporta/gate"
)

func (a *api) level(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, a.levelStatus(time.Now()))
}

func (a *api) levelStatus(now time.Time) LevelStatus {
	g := a.Gate()
	_, until, pinned := g.State().LevelPinAt(now)
	return LevelStatus{g.LevelAt(now).String(), pinned, until}
}

func (a *api) pinLevel(w http.ResponseWriter, r *http.Request) {
	var req LevelRequest
	if !read(w, r, &req) {
		return
	}
	now := time.Now()
	l, err := gate.ParseLevel(req.Level)
	said := l.String()
	if err != nil {
		said = "(no level)" // what else it may be stays out of the log
	} else {
		err = a.Gate().State().PinLevelAt(now, l, now.Add(seconds(req.TTLS)))
	}
	a.audit(r, "level pin", err, "level", said, "ttl_s", req.TTLS)
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	reply(w, http.StatusOK, a.levelStatus(now))
}

func (a *api) unpinLevel(w http.ResponseWriter, r *http.Request) {
	a.Gate().State().UnpinLevel()
	a.audit(r, "level unpin", nil)
	w.WriteHeader(http.StatusNoContent)
}
