package config

import "testing"

// An address is shown by logs and by comporta config; its password never is.
func TestStoreURLHidesPasswords(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h:6379/0":                              "redis://h:6379/0",
		"redis://:secret@h:6379/0":                      "redis://REDACTED@h:6379/0",
		"postgres://h/db?sslmode=verify-full":           "postgres://h/db?sslmode=verify-full",
		"postgres://u:secret@h/db?sslmode=verify-full":  "postgres://REDACTED@h/db?sslmode=verify-full",
		"postgres://u:secret@h,i/db?sslpassword=secret": "postgres://REDACTED@h,i/db?REDACTED",
		"postgres://h/db?user=u&password=secret":        "postgres://h/db?REDACTED",
		"postgres://h/db?password=sec@ret":              "postgres://REDACTED",
		"postgres://u:1?secret@h/db":                    "postgres://REDACTED",
		"postgres:///db?host=/run/postgresql&user=u":    "postgres:///db?host=/run/postgresql&user=u",
		"postgres://u:secret@h/db?application_name=a@b": "postgres://REDACTED@h/db?REDACTED",
		"": "",
	} {
		if got := StoreURL(address).String(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
