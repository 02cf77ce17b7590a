// Hands the system's Chromium to any version of Playwright: a folder as `playwright install` would have made
// it, with the browser under the names and numbers that this version looks for.
import { chmod, lstat, mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { jsonOf } from '../../contract/exact-json.ts'
import { readUntrusted } from '../../sandbox/untrusted-files.ts'

const listedBrowser = z.object({ name: z.string(), revision: z.string().regex(/^\d{1,9}$/) })
const browsersFile = z.object({ browsers: z.array(listedBrowser).max(100) })
type ListedBrowser = z.infer<typeof listedBrowser>

/** The browser of tests without a window, from Playwright 1.49 on. */
const SHELL = 'chromium-headless-shell'

const FILE_BYTES_MAX = 1_048_576

/** Where versions of Playwright look in the folder of a revision, on both architectures. */
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  chromium: ['chrome-linux64/chrome', 'chrome-linux/chrome'],
  [SHELL]: ['chrome-headless-shell-linux64/chrome-headless-shell', 'chrome-linux/headless_shell'],
  ffmpeg: ['ffmpeg-linux'],
}

/** Files that say that all is there, and that the system has the libraries for it. */
const MARKS = ['INSTALLATION_COMPLETE', 'DEPENDENCIES_VALIDATED']

/** Below the folder of browsers: what each of them sent and received. */
export const BROWSER_LOGS = 'network'

/** What is handed out under Playwright's names. */
export interface BrowserPrograms {
  chromium: string
  /** Records videos; without it there are none. */
  ffmpeg?: string | undefined
}

/** Fills `folder` for the Playwright in `core`, its package playwright-core. False when that cannot be read. */
export async function prepareBrowsers(
  folder: string,
  core: string,
  programs: BrowserPrograms,
): Promise<boolean> {
  // The file may be user code, so it is untrusted.
  const text = await readUntrusted(join(core, 'browsers.json'), FILE_BYTES_MAX)
  const listed = browsersFile.safeParse(jsonOf(text ?? ''))
  if (!listed.success) return false
  const logs = join(folder, BROWSER_LOGS)
  await mkdir(logs, { recursive: true })
  const launcher = join(folder, 'chromium')
  await writeFile(launcher, launcherFor(programs.chromium, logs))
  await chmod(launcher, 0o755)
  const ffmpeg = programs.ffmpeg ?? (await noVideos(folder))
  for (const { name, revision } of withShell(listed.data.browsers)) {
    const target = name === 'ffmpeg' ? ffmpeg : launcher
    const places = PROGRAMS[name]
    if (places === undefined) continue
    const own = join(folder, `${name.replaceAll('-', '_')}-${revision}`)
    for (const place of places) {
      await mkdir(dirname(join(own, place)), { recursive: true })
      await symlink(target, join(own, place))
    }
    for (const mark of MARKS) await writeFile(join(own, mark), '')
  }
  return true
}

/** Playwright 1.49 and 1.50 look for the shell under the number of Chromium, and do not list it. */
function withShell(listed: readonly ListedBrowser[]): readonly ListedBrowser[] {
  const chromium = listed.find(({ name }) => name === 'chromium')
  if (chromium === undefined || listed.some(({ name }) => name === SHELL)) return listed
  return [...listed, { ...chromium, name: SHELL }]
}

/** Takes pictures and makes no video of them: a test that asks for one in its own file must not fail for that. */
async function noVideos(folder: string): Promise<string> {
  const path = join(folder, 'no-videos')
  await writeFile(path, '#!/bin/sh\nexec cat >/dev/null\n')
  await chmod(path, 0o755)
  return path
}

/**
 * Starts Chromium with its own sandbox wherever the kernel gives a user namespaces of its own, whatever
 * Playwright was configured to do: it turns it off by default, and where there are none, as in containers, Chromium
 * would not start with it, nor does it in one process or without a zygote. Our sandbox encloses it either way.
 * Where a script names a program of its own, child-processes.cjs hands it over. There are no datagrams: WebRTC and QUIC
 * go without, names are asked of the system's resolver (whose setting stays where a script gives its browser an environment of its
 * own), and that IPv6 is there is not found out by trying a datagram. It makes no background
 * requests: not for the time, for components or for form suggestions.
 *
 * Chromium logs its network events, of which those with headers are kept for browser-headers.ts. The browser holds the
 * pipe open, so that `grep` ends with the browser, also where the browser never opens the log. As long as `grep` has
 * the browser's output open, Playwright waits for it.
 */
function launcherFor(chromium: string, logs: string): string {
  return `#!/bin/sh
off= on= bare=
program=${quoted(chromium)}
log=${quoted(logs)}/$$
for given do
  shift
  case $given in
    # By its name alone, which is found here first.
    --vedette-program=chromium) ;;
    --vedette-program=*) program=\${given#*=} ;;
    --disable-features=*) off=\${given#*=}, ;;
    --enable-features=*) on=\${given#*=}, ;;
    --log-net-log | --log-net-log=* | --net-log-* | -log-net-log=* | -net-log-*) ;;
    --no-zygote | --single-process) bare=1 && set -- "$@" "$given" ;;
    *) set -- "$@" "$given" ;;
  esac
done
export RES_OPTIONS=use-vc "PATH=$PATH:/usr/bin:/bin"
if [ -z "$bare" ] && unshare --user --net --pid --fork true 2>/dev/null; then
  for given do
    shift
    [ "$given" = --no-sandbox ] || set -- "$@" "$given"
  done
else
  set -- --no-sandbox "$@"
fi
mkfifo "$log"
exec 9<>"$log"
setsid grep -F --line-buffered '"headers":["' <"$log" >>"$log.ndjson" 9>&- &
exec "$program" "--log-net-log=$log" --net-log-capture-mode=IncludeSensitive \\
  --force-webrtc-ip-handling-policy=disable_non_proxied_udp --disable-quic \\
  --component-updater=disable-background-downloads,url-source=http://127.0.0.1:9/ \\
  "--disable-features=\${off}AsyncDns,NetworkTimeServiceQuerying,AutofillServerCommunication" \\
  "--enable-features=\${on}EnableIPv6ReachabilityOverride" "$@"
`
}

/** As one word for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

/** The package playwright-core that code in `folder` gets, as Node.js looks it up; runs nothing. */
export async function findPlaywrightCore(folder: string): Promise<string | undefined> {
  for (const name of ['@playwright/test', 'playwright', 'playwright-core']) {
    let at = await findPackage(folder, name)
    for (const next of PARTS[name] ?? []) {
      at = at === undefined ? undefined : await findPackage(at, next)
    }
    if (at !== undefined) return at
  }
  return undefined
}

/** The packages that lead from one to playwright-core. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  '@playwright/test': ['playwright', 'playwright-core'],
  playwright: ['playwright-core'],
}

async function findPackage(from: string, name: string): Promise<string | undefined> {
  for (let at = from; ; at = dirname(at)) {
    const candidate = join(at, 'node_modules', name)
    const isThere = await lstat(join(candidate, 'package.json')).then(
      (found) => found.isFile(),
      () => false,
    )
    if (isThere) return realpath(candidate)
    if (at === dirname(at)) return undefined
  }
}
