// Default alert settings of an account, and the list of recent notifications.
import * as z from 'zod'
import { AccountAlertSettings, AlertNotification } from './channel-schema.ts'
import type { AlertPayload } from '../../contract/api/alert-payload.ts'
import { resultId } from '../results/schema.ts'
import { AlertSettings } from '../../contract/monitor.ts'
import { CUSTOM_POLICIES } from '../../contract/api/rate-policy.ts'
import { readAlertSettings, writeAlertSettings } from './queries/channels.ts'
import { listNotifications } from './queries/alert-notifications.ts'
import type { Database } from '../../database/database.ts'
import { offsetOf, pagedAnswer, pagedParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { booleanParameter, channelIdParameter, unixSeconds } from '../http/parameters.ts'

const PATH = '/v1/alert-settings'
const answers = {
  status: 200 as const,
  schema: AccountAlertSettings,
  description: 'The settings',
}

/** The operations on the settings of an account, and the listing of notifications. */
export function alertSettingsOperations(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      tag: 'Alert Settings',
      summary: 'Read how the account is alerted',
      description: 'It holds for monitors with useGlobalAlertSettings.',
      method: 'get',
      path: PATH,
      answers,
      async answer({ key }) {
        const settings = await readAlertSettings(database, key.accountId)
        return JSON.stringify(whole(settings ?? {}))
      },
    }),
    defineOperation({
      tag: 'Alert Settings',
      summary: 'Replace how the account is alerted',
      description: 'Alerts that are open follow it from their next run or reminder on.',
      method: 'put',
      path: PATH,
      body: AccountAlertSettings,
      answers,
      async answer({ key, body }) {
        await writeAlertSettings(database, key.accountId, body)
        return JSON.stringify(whole(body))
      },
    }),
    listing(database),
  ]
}

function listing(database: Database): DefinedOperation {
  return defineOperation({
    tag: 'Alert Notifications',
    summary: 'List the notifications of alert channels',
    description: 'Newest first, with their outcome. Retained for 30 days after they were finished.',
    method: 'get',
    path: '/v1/alert-notifications',
    policy: CUSTOM_POLICIES['alert-notifications'],
    query: {
      ...pagedParameters(),
      from: unixSeconds('Created at this instant or later, seconds since the Unix epoch'),
      to: unixSeconds('Created before this instant'),
      alertChannelId: channelIdParameter('Only those of this alert channel'),
      hasFailures: booleanParameter('Only those that failed, or did not'),
    },
    answers: {
      status: 200,
      schema: z.array(AlertNotification),
      description: 'A page of notifications',
      hasContentRange: true,
    },
    async answer({ key: { accountId }, query }) {
      const filters = {
        accountId,
        channelId: query.alertChannelId ?? null,
        from: query.from === undefined ? null : new Date(query.from),
        to: query.to === undefined ? null : new Date(query.to),
        hasFailed: query.hasFailures ?? null,
      }
      const ask = { limit: query.limit, offset: offsetOf(query) }
      const { entries, total } = await listNotifications(database, filters, ask)
      return pagedAnswer(query, entries.map(withResult), total)
    },
  })
}

/** The notification with the result that it reports, if it is about a run. */
function withResult(one: AlertNotification): AlertNotification {
  const { monitor, run } = one.payload as Partial<AlertPayload>
  if (one.checkId === null || !monitor || !run) return one
  const slotMs = Date.parse(run.slot)
  const checkResultId = resultId({ locationId: run.location, monitorId: one.checkId, slotMs })
  return { ...one, checkType: monitor.checkType, checkResultId }
}

/** Settings with every default filled in. */
function whole(settings: Partial<AlertSettings>): AlertSettings {
  return AlertSettings.parse({
    runBasedEscalation: {},
    timeBasedEscalation: {},
    reminders: {},
    parallelRunFailureThreshold: {},
    ...settings,
  })
}
