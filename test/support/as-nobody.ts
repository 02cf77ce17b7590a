// Runs a command as a user without any privilege, as in a container with `--cap-drop ALL`.
import { IN_REACH } from './in-reach.ts'

/** Prefix of a command line. Needs root. */
export const AS_NOBODY: readonly string[] = [
  ...IN_REACH,
  'setpriv',
  '--reuid=65534',
  '--regid=65534',
  '--clear-groups',
  '--inh-caps=-all',
  '--bounding-set=-all',
]
