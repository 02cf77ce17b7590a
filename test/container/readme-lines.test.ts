// Aim: the images do what the README says: its lines are run as they are (only with names and a port that no other
// container has), and every command that it names is in the images.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { startContainer } from '../support/container/contained.ts'
import { agentIn, platformFor, watching } from '../support/container/contained-agent.ts'
import { eventually } from '../support/eventually.ts'
import { needImages } from '../support/container/images.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const run = promisify(execFile)
needImages('agent-uptime', 'platform')
const page = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8')
const manual = page('docker/README.md')

const MONITORS = `monitors:
  - { name: Itself, type: URL, every: 5s, request: { url: 'http://127.0.0.1:8081/health' } }
  - { name: Nobody, type: TCP, every: 5s, request: { hostname: 127.0.0.1, port: 9 } }
`

/** The chapter of a heading, up to the next one of its level. */
function chapter(heading: string): string {
  const from = manual.indexOf(`\n## ${heading}\n`)
  expect(from, `the page has ${heading}`).toBeGreaterThan(-1)
  return manual.slice(from, manual.indexOf('\n## ', from + 1))
}

const container = chapter('Run it in a container')

/** The only match in the page's text. */
function only(pattern: RegExp, text = container): string {
  const found = [...text.matchAll(new RegExp(pattern, 'gm'))]
  expect([pattern, found.length]).toEqual([pattern, 1])
  return found[0]?.[1] ?? found[0]?.[0] ?? ''
}

const names: string[] = []
afterEach(async () => {
  for (const name of names.splice(0)) {
    await run('docker', ['rm', '--force', '--volumes', name]).catch(() => undefined)
    await run('docker', ['volume', 'rm', name]).catch(() => undefined)
  }
})

/** A folder with the user's monitors.yaml, and a function to run lines in it. */
function userFolder() {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'monitors.yaml'), MONITORS, { mode: 0o644 })
  const line = (text: string) => run('sh', ['-c', text], { cwd })
  return { line }
}

/** Runs the page's `docker run`; `change` applies a replacement that the page describes. */
async function runAsSaid(change: (line: string) => string) {
  const name = `vedette-test-${randomUUID()}`
  names.push(name)
  const said = only(/^(docker run -d (?:[^\n]*\\\n)*[^\n]*)$/)
  const { line } = userFolder()
  const replaced = [
    ['--name vedette ', `--name ${name} `],
    ['-v vedette:', `-v ${name}:`],
    ['-p 8081:8081', '-p 127.0.0.1::8081'],
  ].reduce((text, [from = '', to = '']) => {
    expect(text.split(from)).toHaveLength(2)
    return text.replace(from, to)
  }, change(said))
  await line(replaced)
  return { name, line }
}

async function answer(url: string) {
  const response = await fetch(url).catch(() => undefined)
  return { status: response?.status, text: await response?.text() }
}

describe('docker run as the page says', () => {
  test('watches the monitors of the file, shows its log, and runs commands', async () => {
    const { name, line } = await runAsSaid((said) => said)
    const port = (await line(`docker port ${name} 8081`)).stdout.trim()
    await eventually(async () => (await answer(`http://${port}/-/readiness`)).status === 200)
    const series = /^probe_success\{.*name="Itself".*\} 1$/m
    await eventually(async () => {
      const { text = '' } = await answer(`http://${port}/metrics`)
      return series.test(text) && /^probe_success\{.*name="Nobody".*\} 0$/m.test(text)
    })
    const logs = only(/^docker logs -f vedette$/).replace('-f vedette', name)
    expect((await line(logs)).stdout).toContain('"msg":"agent started"')
    const said = only(/`(docker exec vedette vedette) …`/).replace('vedette', name)
    expect((await line(`${said} check --only Itself`)).stdout).toMatch(
      /passed +Itself|Itself.*passed/,
    )
    const inspected = await line(`docker inspect --format '{{.State.Health.Status}}' ${name}`)
    expect(['starting', 'healthy']).toContain(inspected.stdout.trim())
    await line(`docker stop ${name}`)
    const code = await line(`docker inspect --format '{{.State.ExitCode}}' ${name}`)
    expect(code.stdout.trim()).toBe('0')
  })

  test('works for a platform in place of the file', async () => {
    const { network, platform } = await platformFor()
    platform.give(watching('http://127.0.0.1:8081/health'))
    const said = only(
      /For a platform give `(-e PLATFORM_URL=https:\/\/… -e API_KEY=pl_…)` in place/,
    )
    const settings = said.replace('https://…', platform.url).replace('pl_…', 'pl_0123456789abcdef')
    await runAsSaid((line) =>
      line
        .replace('-e MONITORS_FILE=/etc/vedette/monitors.yaml', settings)
        .replace(/-v "\$PWD[^"]*"/, `--network ${network.name}`),
    )
    expect(await platform.result(() => true)).toMatchObject({ verdict: 'passed' })
  })

  test('runs a file once, with the exit code of its verdicts', async () => {
    const { line } = userFolder()
    const said = only(/`(docker run --rm -v [^`]* check [^`]*)`/)
    const { code, stdout } = (await line(said).catch((error: unknown) => error)) as {
      code: number
      stdout: string
    }
    expect([code, stdout]).toEqual([1, expect.stringContaining('CONNECT_REFUSED')])
  })
})

describe('in an image', () => {
  const rows = [...page('src/cli/README.md').matchAll(/^\| `vedette ([a-z]+(?: [a-z]+)?)/gm)]
  const commands = rows.map(([, args = '']) => args.split(' '))

  test.each(['agent-uptime', 'platform'] as const)(
    '%s has help for every documented command',
    async (image) => {
      expect(commands.length).toBeGreaterThan(10)
      const idle = await startContainer({
        image,
        network: 'none',
        entrypoint: ['tini', '--', 'sleep', '300'],
      })
      for (const args of commands) {
        const { code, text } = await idle.exec('vedette', ...args, '--help')
        expect({ args, code, text }).toEqual({
          args,
          code: 0,
          text: expect.stringContaining(`vedette ${args[0]}`) as string,
        })
      }
    },
  )

  test('the bill of materials lists packages of Debian and of npm', async () => {
    const file = only(
      /`(\/usr\/share\/vedette\/[^`]+)` lists every Debian and npm package/,
      chapter('What can be verified'),
    )
    const command = [file]
    const shown = await startContainer({
      image: 'agent-uptime',
      network: 'none',
      entrypoint: ['cat'],
      command,
    })
    expect(await shown.ended).toBe(0)
    const text = shown.lines.map((one) => one.text ?? JSON.stringify(one)).join('\n')
    const { components } = JSON.parse(text) as { components: { purl: string }[] }
    const purls = components.map(({ purl }) => purl)
    expect(purls.some((purl) => purl.startsWith('pkg:deb/debian/tini@'))).toBe(true)
    expect(purls.some((purl) => purl.startsWith('pkg:npm/hono@'))).toBe(true)
  })

  test('an agent runs as user 10001 with nothing to write to but its volume', async () => {
    const { network, platform } = await platformFor()
    const agent = await agentIn(network, platform)
    expect((await agent.exec('id', '-u')).text.trim()).toBe('10001')
    expect(await agent.exec('sh', '-c', 'echo > /tmp/file')).toMatchObject({ code: 2 })
    expect(await agent.exec('sh', '-c', 'echo > /var/lib/vedette/file')).toMatchObject({ code: 0 })
    const { text } = await agent.exec('sh', '-c', 'grep -h ^Cap[PE] /proc/[0-9]*/status | sort -u')
    expect(text.trim().split(/\s+/)).toEqual([
      'CapEff:',
      '0000000000000000',
      'CapPrm:',
      '0000000000000000',
    ])
  })
})
