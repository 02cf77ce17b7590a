// Environment of user code: what it needs, and nothing of the agent's.
import { join } from 'node:path'

/** Folders with programs of the system; the agent's own PATH is not passed on. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Folders that every run has below its own; they are made before it starts. */
export const RUN_FOLDERS: readonly string[] = ['home', 'tmp']

/**
 * The variables of a run in `folder`: a home and a temporary folder of its own, and what the order names,
 * which wins. `programs` are folders to look for programs in, before those of the system.
 */
export function sandboxEnvironment(
  folder: string,
  wanted: Readonly<Record<string, string>>,
  programs: readonly string[] = [],
): Record<string, string> {
  const home = join(folder, 'home')
  const temporary = join(folder, 'tmp')
  return {
    PATH: [...programs, SYSTEM_PATH].join(':'),
    HOME: home,
    TMPDIR: temporary,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_CACHE_HOME: join(home, '.cache'),
    XDG_RUNTIME_DIR: temporary,
    LANG: 'C.UTF-8',
    TZ: 'UTC',
    // Datagram sockets are not given, so names are asked for over TCP: resolv.conf(5), and c-ares.
    RES_OPTIONS: 'use-vc',
    ...wanted,
  }
}
