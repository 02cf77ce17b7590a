// The exit codes of the program, next to 128 + the number of a signal. The page of the command line lists them by
// command.

export const EXIT = {
  /** Done, or everything passed. */
  ok: 0,
  /** A check failed, a plan has changes, or a fault ended the process. */
  failed: 1,
  /** Arguments, settings or files are invalid, or the platform refuses what is asked. */
  configuration: 2,
  /** The platform cannot be reached or fails, or has revoked the key of the agent. */
  noPlatform: 3,
  /** A run without a verdict about the target: errored, cancelled or missed. */
  noVerdict: 4,
} as const
