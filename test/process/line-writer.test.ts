// Aim: a log whose reader stalls loses lines and nothing else. On real pipes, since a file never stalls.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const module = fileURLToPath(new URL('../../src/process/line-writer.ts', import.meta.url))

/** A process that writes to its standard output, a pipe, through a line writer; `body` is its program. */
function startWriter(body: string) {
  const head = `import { createLineWriter } from ${JSON.stringify(module)}\n`
  const flags = ['--input-type=module-typescript', '-e', `${head}${body}`]
  return spawn(process.execPath, flags, { stdio: ['pipe', 'pipe', 'pipe'] })
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += String(chunk)
  return text
}

test('all lines are written in order, also pending ones at the end', async () => {
  const child = startWriter(`
    const writer = createLineWriter()
    for (let n = 0; n < 5000; n++) writer.write(n + '\\n')
  `)
  const lines = (await textOf(child.stdout)).trimEnd().split('\n')
  expect(lines).toEqual(Array.from({ length: 5000 }, (_, n) => String(n)))
})

test('a reader that stalls does not block; lost lines are counted and reported when it reads again', async () => {
  const child = startWriter(`
    const writer = createLineWriter({
      waitingBytesMax: 100_000,
      onDropped: (lines) => writer.write('dropped ' + lines + '\\n'),
    })
    for (let n = 0; n < 20_000; n++) writer.write('x'.repeat(99) + '\\n')
    setImmediate(() => process.stderr.write('free ' + writer.dropped() + '\\n'))
  `)
  // Standard output is not read yet, and still the event loop of the process runs.
  const [output] = (await once(child.stderr, 'data')) as [Buffer]
  const dropped = Number(/^free (\d+)$/m.exec(output.toString())?.[1])
  expect(dropped).toBeGreaterThan(0)
  const text = await textOf(child.stdout)
  expect(text).toContain(`dropped ${dropped}\n`)
  expect(text.split('\n').filter((line) => line.startsWith('x'))).toHaveLength(20_000 - dropped)
})

test('a closed reader does not end the process', async () => {
  const child = startWriter(`
    const writer = createLineWriter()
    process.stdin.on('data', () => {
      for (let n = 0; n < 1000; n++) writer.write('x'.repeat(1000) + '\\n')
    })
    process.stdin.on('end', () => process.stderr.write('still here'))
    process.stderr.write('ready')
  `)
  await once(child.stderr, 'data')
  child.stdout.destroy()
  await once(child.stdout, 'close')
  child.stdin.end('go')
  const [[code], text] = await Promise.all([once(child, 'exit'), textOf(child.stderr)])
  expect({ code, text }).toEqual({ code: 0, text: 'still here' })
})
