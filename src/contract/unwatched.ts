// Settings of definitions that this version accepts and does not support. The sentences are shown when such a
// definition is created, read or reported.

/** Of an e-mail address that subscribes to a status page. */
export const EMAIL_UNSENT =
  'This version sends no e-mail to subscribers. Use an alert channel of type WEBHOOK'

/** Of an active check without a private location. */
export const CHECK_UNPLACED =
  'No agent runs this check: it names only public locations, which this platform does not have. Add a private location'
