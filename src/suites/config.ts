// The configuration that a suite runs with: the project's own, in whose place stands a file that imports it
// and adds what was left open. Whatever the test command is, it finds this one.
import { copyFile, lstat, mkdir, rename, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { copyHeaderWatch } from '../scripts/playwright/observed-headers.ts'
import { leadsInside, readUntrusted } from '../sandbox/untrusted-files.ts'

/** Names under which Playwright looks for a configuration, in its order. */
const NAMES = ['ts', 'js', 'mts', 'mjs', 'cts', 'cjs'].map((end) => `playwright.config.${end}`)
/** Before the name of the project's own file, which keeps its place and its end. */
const OWN = 'own.'
const WRAPPING = fileURLToPath(new URL('../scripts/playwright/suite-wrapping.cjs', import.meta.url))
const LAUNCHES = fileURLToPath(
  new URL('../scripts/playwright/browser-launches.cjs', import.meta.url),
)
const CONFIG_BYTES_MAX = 4_194_304

/**
 * Puts a wrapping file in the place of each configuration of the project in `cwd`: of the one that Playwright
 * finds by itself, and those that the command names. Without any, there is one of the defaults alone.
 * `folder` is the whole project; nothing outside of it is touched.
 */
export async function wrapConfigs(
  folder: string,
  cwd: string,
  ownFolder: string,
  testCommand: string,
): Promise<void> {
  const wrapping = join(ownFolder, 'wrapping.cjs')
  await mkdir(ownFolder, { recursive: true })
  await copyFile(WRAPPING, wrapping)
  await copyFile(LAUNCHES, join(ownFolder, 'browser-launches.cjs'))
  await copyHeaderWatch(ownFolder)
  const named = namedConfigs(testCommand).map((path) => join(cwd, path))
  const inside = named.filter((path) => normalize(path).startsWith(`${folder}/`))
  const found: string[] = []
  for (const path of inside) {
    if ((await isFile(path)) && (await leadsInside(path, folder))) found.push(path)
  }
  for (const name of NAMES) {
    if (!(await isFile(join(cwd, name)))) continue
    found.push(join(cwd, name))
    break
  }
  for (const path of new Set(found)) await wrap(path, folder, wrapping)
  if (found.length > 0 || named.length > 0) return
  const alone = `module.exports = require(${JSON.stringify(wrapping)})({})\n`
  await writeFile(join(cwd, 'playwright.config.cjs'), alone, { flag: 'wx' })
}

/** What a command says after `-c` or `--config`. */
function namedConfigs(command: string): string[] {
  const pattern = /(?:^|\s)(?:-c|--config)(?:\s+|=)(?:"([^"]+)"|'([^']+)'|([^\s"']+))/g
  return [...command.matchAll(pattern)].map(([, a, b, c]) => a ?? b ?? c ?? '').filter(isPlain)
}

function isPlain(path: string): boolean {
  return path !== '' && !path.includes('\0') && !path.startsWith('/')
}

async function wrap(path: string, folder: string, wrapping: string): Promise<void> {
  const own = join(dirname(path), `${OWN}${basename(path)}`)
  const isModule = await isModuleFile(path, folder)
  await rename(path, own)
  const end = extname(path)
  // Ours comes first: what the project's own file loads is to be watched as well.
  // Playwright takes TypeScript's files by their own name; with imports of modules alone, it must be given.
  const from = JSON.stringify(`./${OWN}${basename(path)}`)
  const by = JSON.stringify(wrapping)
  const isCommon = end === '.cjs' || end === '.cts' || (!isModule && end === '.js')
  await writeFile(
    path,
    isCommon
      ? `const wrap = require(${by})\nmodule.exports = wrap(require(${from}))\n`
      : `import wrap from ${by}\nimport * as own from ${from}\nexport * from ${from}\nexport default wrap(own)\n`,
    { flag: 'wx' },
  )
}

/** Whether Node.js takes the file as an ECMAScript module: by its end, else by the nearest package.json. */
async function isModuleFile(path: string, folder: string): Promise<boolean> {
  const end = extname(path)
  if (end === '.mjs' || end === '.mts') return true
  if (end === '.cjs' || end === '.cts') return false
  if (end === '.js' && (await hasModuleSyntax(path))) return true
  for (let at = dirname(path); at.startsWith(folder); at = dirname(at)) {
    try {
      const text = await readUntrusted(join(at, 'package.json'), CONFIG_BYTES_MAX)
      const manifest: unknown = JSON.parse(text ?? '')
      return (manifest as { type?: unknown } | null)?.type === 'module'
    } catch {
      continue
    }
  }
  return false
}

/** Playwright takes imports in plain `.js` as well. */
async function hasModuleSyntax(path: string): Promise<boolean> {
  const text = await readUntrusted(path, CONFIG_BYTES_MAX)
  return text !== undefined && /^\s*(?:import\s[^(]|import\{|export\s)/m.test(text)
}

async function isFile(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined)
  return found?.isFile() === true
}
