// Aim: whatever a command is given, it ends soon with exit code 2 and a message that names the problem.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startVedette } from '../support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

/** A hanging command would fail the test by its timeout. */
const LIMIT = { timeout: 20_000 }

const start = (args: readonly string[], env: Record<string, string> = {}) =>
  startVedette(args, { AGENT_HEALTH_PORT: '0', DATA_DIR: temporaryFolder(), ...env }).ended

function made(command: string, ...args: string[]): string {
  const path = join(temporaryFolder(), 'made')
  execFileSync(command, [...args, path])
  return path
}

const pipe = () => made('mkfifo')

test.each<[string, () => string, string]>([
  ['a missing file', () => '/nowhere.yaml', 'does not exist'],
  ['a folder', () => temporaryFolder(), 'is a folder'],
  ['a pipe', pipe, 'is not a regular file'],
  ['a device', () => '/dev/zero', 'is not a regular file'],
  ['a program', () => process.execPath, 'is larger than'],
  ['binary data', () => temporaryFile('a.yaml', new Uint8Array([0, 1, 2])), 'is not a text file'],
  ['an empty file', () => temporaryFile('a.yaml', ''), 'is empty'],
  ['a file of 100 MB', () => made('truncate', '-s', '100M'), 'is larger than'],
])('a monitors file that is %s', LIMIT, async (_, make, message) => {
  const path = make()
  const ended = await Promise.all([
    start(['validate', path]),
    start(['check', path]),
    start(['agent'], { MONITORS_FILE: path }),
  ])
  for (const { code, stderr } of ended) {
    expect([code, stderr]).toEqual([2, expect.stringContaining(path)])
    expect(stderr).toContain(message)
  }
})

const MONITOR = '- {id: shop, name: Shop, type: URL, request: {url: "http://a/"}}'
const SHOP = ['check', temporaryFile('shop.yaml', MONITOR)]

test.each<[string, string[], () => Record<string, string>, string]>([
  ['no monitors', ['agent'], () => ({}), 'MONITORS_FILE is not set'],
  ['a key alone', ['agent'], () => ({ API_KEY: 'pl_1234567890' }), 'PLATFORM_URL is not set'],
  ['a key in a pipe', ['agent'], () => ({ API_KEY_FILE: pipe() }), 'not a regular file'],
  ['a key twice', ['agent'], () => ({ API_KEY: 'x', API_KEY_FILE: 'x' }), 'keep one of them'],
  ['a bad port', ['platform'], () => ({ PORT: 'abc' }), 'PORT is "abc"'],
  ['a bad port', ['start'], () => ({ PORT: 'abc' }), 'PORT is "abc"'],
  ['a bad port', ['check'], () => ({ AGENT_HEALTH_PORT: 'abc' }), 'AGENT_HEALTH_PORT is "abc"'],
  ['no account', ['run', 'a'], () => ({}), 'ACCOUNT_ID is not set'],
  ['two reports', ['check', '--json', '--junit'], () => ({}), '--json and --junit'],
  ['a monitor without the tag', [...SHOP, '--only', 'shop', '--tag', 'x'], () => ({}), '--tag x:'],
  ['a tag where none has any', [...SHOP, '--tag', 'x'], () => ({}), 'none is known'],
  ['a pipe', ['restore', pipe()], () => ({}), 'is not a regular file'],
  ['a pipe', ['test', pipe()], () => ({}), 'is not a folder or file'],
  ['no backup', ['restore', temporaryFile('a', 'select 1\n')], () => ({}), 'is not a backup'],
])('%s: %j', LIMIT, async (_, args, env, message) => {
  const { code, stderr } = await start(args, env())
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
})

test('every command refuses unknown options and further arguments', async () => {
  const { stdout } = await start(['--help'])
  const commands = Array.from(stdout.matchAll(/^ {2}(\w+) {2,}/gm), ([, name]) => name as string)
  expect(commands.length).toBeGreaterThan(15)
  for (const command of commands) {
    const [option, more] = await Promise.all([
      start([command, '--bogus-option']),
      start([command, 'a', 'b', 'c']),
    ])
    expect([command, option.code, more.code]).toEqual([command, 2, 2])
    expect(option.stderr).toContain('unknown option --bogus-option')
    expect(more.stderr).toContain('unexpected argument')
  }
}, 60_000)
