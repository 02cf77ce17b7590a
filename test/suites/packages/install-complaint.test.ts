// In the output of a package manager that failed, the lines that name the cause are found.
import { expect, test } from 'vitest'
import { installFailure } from '../../../src/suites/packages/install-complaint.ts'

const USAGE = Array.from({ length: 200 }, (_, at) => `npm error   --option-${at} of the usage`)

const NPM = [
  'npm warn Unknown user config',
  'npm error code EUSAGE',
  'npm error',
  'npm error `npm ci` can only install packages when your package.json and package-lock.json are in sync.',
  'npm error',
  'npm error Missing: left-pad@1.3.0 from lock file',
  'npm error',
  'npm error Clean install a project',
  'npm error Usage:',
  ...USAGE,
]
const NPM_8 = [
  'npm ERR! code ECONNREFUSED',
  'npm ERR! syscall connect',
  'npm ERR! errno ECONNREFUSED',
  'npm ERR! FetchError: request to http://127.0.0.1:9/pens failed',
  'npm ERR! A complete log of this run can be found in: /home/a/.npm/_logs',
]
const PNPM_12 = [
  'Error: ERR_PNPM_OUTDATED_LOCKFILE',
  '',
  '  × installing dependencies',
  '  ╰─▶ Cannot install with "frozen-lockfile" because pnpm-lock.yaml is not up',
  '      to date with package.json.',
  '      ',
  '        Failure reason:',
]
const FROZEN = ' ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with "frozen-lockfile"'
const YARN_1 = ['[1/4] Resolving', 'error Your lockfile needs to be updated', 'info Visit']
const YARN_4 = [
  '➤ YN0000: ┌ Post-resolution validation',
  '➤ YN0028: │ +  version: 10',
  '➤ YN0028: │ The lockfile would have been modified by this install',
  '➤ YN0000: · Failed with errors in 0s 54ms',
]
const BUN = ['bun install v1.3.1', 'error: lockfile had changes, but lockfile is frozen']

test.each<[string, string[], RegExp]>([
  ['npm', NPM, /^EUSAGE: `npm ci` can only .* in sync\.; Missing: left-pad@1\.3\.0 from lock/],
  ['npm 8', NPM_8, /^ECONNREFUSED: FetchError: request to \S+ failed$/],
  ['pnpm 10', ['Lockfile is up to date', FROZEN], /^ERR_PNPM_OUTDATED_LOCKFILE {2}Cannot install/],
  ['pnpm 12', PNPM_12, /^Cannot install .* is not up to date with package\.json\.$/],
  ['Yarn 1', YARN_1, /^error Your lockfile needs to be updated$/],
  ['Yarn 4', YARN_4, /^The lockfile would have been modified by this install$/],
  ['Bun', BUN, /^error: lockfile had changes/],
  ['a command that names nothing', ['building', 'it is over'], /^it is over$/],
  ['a command that says nothing', [], /^$/],
])('%s', (_, lines, cause) => {
  const { message, details } = failureOf(lines)
  expect(message.replace('it ended with exit code 1: ', '')).toMatch(cause)
  expect(String(details?.['output']).length).toBeLessThanOrEqual(4000)
})

test('what is kept of a long text begins with the cause', () => {
  const lines = [...Array<string>(500).fill('downloading'), 'npm error code E404', ...USAGE]
  expect(failureOf(lines).details?.['output']).toMatch(/^npm error code E404\n/)
})

function failureOf(lines: string[]) {
  const end = { tail: { stdout: lines.join('\n'), stderr: '' }, exitCode: 1 }
  const nothing = { project: '/', packages: undefined, refused: [] }
  return installFailure({ command: 'it', end, ...nothing })
}
