// Aim: notifications in the outbox arrive signed and in order at receivers that refuse, stall, fail or answer
// nonsense for a while. Nothing is given up too early or posted to a forbidden address.
import { createHmac } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { spreadOut } from '../../../src/platform/alerts/webhook-outbox.ts'
import { isBlockedAddress } from '../../../src/platform/alerts/webhook-address.ts'
import { postWebhook } from '../../../src/platform/alerts/webhook.ts'
import { startReceiver } from '../../support/platform/alerts/alerted-account.ts'
import { statuses, useOutbox } from '../../support/platform/alerts/outbox.ts'
import { startRawServer } from '../../support/test-server.ts'

const outbox = useOutbox()
const { database, start, receiver, channel, post, settled, opened } = outbox

test('a webhook is signed as in Standard Webhooks, and can be verified', async () => {
  const to = await receiver()
  const key = Buffer.from('32 bytes that nobody else knows.')
  await post(await channel({ url: to.url, webhookSecret: `whsec_${key.toString('base64')}` }), [
    'a',
  ])
  start()
  const [arrived] = await to.waitFor(1)
  if (arrived === undefined) throw new Error('nothing arrived')
  const { headers, body } = arrived
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
  const expected = createHmac('sha256', key).update(signed).digest('base64')
  expect(headers['webhook-signature']).toBe(`v1,${expected}`)
  expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60)
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(JSON.parse(body)).toMatchObject({ id: headers['webhook-id'], title: 'a' })
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 1, status: 204 }])
})

test('template, headers, query and address accept variables, each escaped for its place', async () => {
  const to = await receiver()
  const id = await channel({
    url: `${to.url}/{{CHECK_NAME}}`,
    method: 'PUT',
    template: '{"text": "{{ALERT_TITLE}}: {{ CHECK_NAME }} {{TAGS}} {{ALERT_TYPE}} {{$UUID}}"}',
    headers: [{ key: 'X-Title', value: '{{ALERT_TITLE}}' }],
    queryParameters: [{ key: 'name', value: '{{CHECK_NAME}}&x' }],
  })
  await post(id, ['line\nbreak \u{1F6A8}'])
  start()
  const [arrived] = await to.waitFor(1)
  expect(arrived?.method).toBe('PUT')
  expect(arrived?.url).toBe('/hook/Shop%20%22A%22?name=Shop+%22A%22%26x')
  const uuid = String(arrived?.headers['webhook-id'])
  expect(JSON.parse(arrived?.body ?? '')).toEqual({
    text: `line\nbreak \u{1F6A8}: Shop "A" a,b ALERT_FAILURE ${uuid}`,
  })
  expect(arrived?.headers['x-title']).toBe('line?break ??')
})

/** Fails at the first request, and accepts those after it. */
const onceFailing =
  (fail: (response: ServerResponse) => unknown) => (response: ServerResponse, n: number) =>
    void (n > 0 ? response.writeHead(200).end() : fail(response))

/** Seconds until the notification of the account is due again. */
const dueIn = async () => {
  const [row] = await database().database.query<{ wait: number }>(
    `select extract(epoch from greatest(next_at, leased_until) - clock_timestamp())::float8 as wait
     from alert_notifications where account_id = $1`,
    [outbox.client().accountId],
  )
  return row?.wait ?? 0
}

describe('retried', () => {
  test.each<[string, (response: ServerResponse, n: number) => void]>([
    ['500 and then 200', statuses(500, 200)],
    ['429', statuses(429, 204)],
    ['404, as while a receiver is rolled out', statuses(404, 204)],
    [
      'a redirect to another origin',
      onceFailing((response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()),
    ],
    ['an answer that is cut off', onceFailing((response) => response.destroy())],
    ['nonsense', onceFailing((response) => response.socket?.end('SSH-2.0-nonsense\r\n\r\n'))],
    [
      'a head without end',
      onceFailing((response) =>
        response.socket?.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`),
      ),
    ],
  ])('after %s', async (_, answer) => {
    const to = await receiver(answer)
    await post(await channel({ url: to.url }), ['a'])
    start()
    expect(await settled()).toMatchObject([{ state: 'sent', attempts: 2, message: null }])
    const ids = to.arrived.map(({ headers }) => headers['webhook-id'])
    expect(new Set(ids).size).toBe(1)
  })

  test('after a refused connection, until it is given up with its reason', async () => {
    const to = await startReceiver()
    await to.close()
    await post(await channel({ url: to.url }), ['a'])
    start()
    expect(await settled()).toMatchObject([
      { state: 'failed', attempts: 3, status: null, message: 'failed with ECONNREFUSED' },
    ])
  })

  test('not before Retry-After allows it', async () => {
    const answer = (response: ServerResponse) =>
      void response.writeHead(503, { 'retry-after': '600' }).end()
    const to = await receiver(answer)
    await post(await channel({ url: to.url }), ['a'])
    start()
    await to.waitFor(1)
    await expect.poll(dueIn).toBeGreaterThan(500)
  })

  test('13 times, for about nine hours', () => {
    const waits = Array.from({ length: 14 }, (_, n) => spreadOut(n + 1))
    expect(waits.pop()).toBeUndefined()
    const hours = waits.reduce((sum: number, ms = 0) => sum + ms, 0) / 3_600_000
    expect(hours).toBeGreaterThan(6)
    expect(hours).toBeLessThan(12)
  })
})

test('a receiver that answers 410 three times pauses its channel until it is changed', async () => {
  const to = await receiver(statuses(410, 410, 410, 200))
  const id = await channel({ url: to.url })
  await post(id, ['a', 'b', 'c'])
  start()
  const all = await settled()
  expect(all.map(({ state }) => state)).toEqual(['failed', 'failed', 'failed'])
  expect(to.arrived).toHaveLength(3)
  const path = `/v1/alert-channels/${id}`
  const paused = await outbox.client().call('GET', path)
  expect(paused.body.pausedAt).not.toBeNull()
  const put = await outbox.client().call('PUT', path, { body: paused.body })
  expect(put.body.pausedAt).toBeNull()
})

test('a receiver that never answers does not delay others', async () => {
  const silent = await startRawServer(() => undefined)
  opened.push(silent)
  const quick = await receiver()
  await post(await channel({ url: `http://${silent.authority}/` }), ['a'])
  for (let n = 0; n < 20; n++) await post(await channel({ url: quick.url }), ['b'])
  start()
  await quick.waitFor(20)
  expect(silent.open()).toBe(1)
  await silent.close()
  expect((await settled())[0]).toMatchObject({ state: 'failed' })
})

test('waiting for an answer ends at the time-out', async () => {
  const silent = await startRawServer(() => undefined)
  opened.push(silent)
  const asked = {
    url: new URL(`http://${silent.authority}/`),
    method: 'POST',
    headers: {},
    body: '',
  }
  const answer = await postWebhook(asked, new AbortController().signal, 50)
  expect(answer).toEqual({ problem: 'no answer in time' })
})

test('an endless body is not read', async () => {
  let written = 0
  const to = await receiver((response) => {
    response.writeHead(200)
    const more = () => {
      written += 65_536
      if (!response.destroyed && response.write(Buffer.alloc(65_536))) setImmediate(more)
      else response.once('drain', more)
    }
    more()
  })
  await post(await channel({ url: to.url }), ['a'])
  start()
  expect(await settled()).toMatchObject([{ state: 'sent' }])
  expect(written).toBeLessThan(64 * 1024 * 1024)
})

test('a redirect within the origin is followed with the same method, body and signature', async () => {
  const to = await receiver((response, _n, { url }) => {
    if (url === '/hook') response.writeHead(308, { location: '/moved' }).end()
    else response.writeHead(200).end()
  })
  await post(await channel({ url: to.url }), ['a'])
  start()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 1 }])
  const [first, second] = to.arrived
  expect(second).toMatchObject({ method: 'POST', url: '/moved', body: first?.body })
  expect(second?.headers['webhook-signature']).toBe(first?.headers['webhook-signature'])
})

test('a notification that a process claimed and never finished is sent by another', async () => {
  const to = await receiver()
  await post(await channel({ url: to.url }), ['a'])
  // The state after a process was killed half a minute ago.
  await database().database.query(
    `update alert_notifications set attempts = 1, next_at = clock_timestamp()
     where account_id = $1`,
    [outbox.client().accountId],
  )
  start()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 2 }])
})

test('a claimed notification is due for others half a minute later', async () => {
  let end = () => {}
  const to = await receiver((response) => (end = () => void response.writeHead(204).end()))
  await post(await channel({ url: to.url }), ['a'])
  start()
  await to.waitFor(1)
  expect(await dueIn()).toBeLessThan(29)
  expect(await dueIn()).toBeGreaterThan(10)
  end()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 1 }])
})

test('a channel that cannot be decrypted with this key fails with a reason', async () => {
  const id = await channel({ url: 'http://127.0.0.1:1/' })
  await database().database.query(`update alert_channels set config = 's1.AAAA' where id = $1`, [
    id,
  ])
  await post(id, ['a'])
  start()
  const [row] = await settled()
  expect(row).toMatchObject({ state: 'failed' })
  expect(row?.message).toContain('SECRETS_KEY')
})

describe('never posted to', () => {
  test.each([
    '169.254.169.254',
    '169.254.0.1',
    '100.100.100.200',
    '168.63.129.16',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '[::ffff:169.254.169.254]',
    '[::169.254.169.254]',
    '[64:ff9b::169.254.169.254]',
    '[2002:a9fe:a9fe::1]',
    '[0:0:0:0:0:ffff:a9fe:a9fe]',
    // Other spellings of 169.254.169.254.
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
  ])('%s', async (host) => {
    const asked = { url: new URL(`http://${host}/`), method: 'POST', headers: {}, body: '' }
    const answer = await postWebhook(asked, AbortSignal.timeout(5000))
    expect(answer).toMatchObject({ problem: expect.stringContaining('link-local') })
  })

  test.each(['10.0.0.1', '192.168.1.1', '127.0.0.1', '::1', 'fd00::1', '2001:db8::1', '8.8.8.8'])(
    '%s is no such address',
    (address) => {
      expect(isBlockedAddress(address)).toBe(false)
    },
  )
})
